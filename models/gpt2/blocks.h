// The three kinds of GPT-2 block (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019):
// pre-norm layers, learned positions, GELU with the tanh approximation, output weights shared with the embedding.
// Parameter names and shapes are Hugging Face's; linear weights are stored (in, out).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/block.h"
#include "models/kernels/kernels.h"
#include "models/model.h"

namespace zrt::models {

std::unique_ptr<Block> make_gpt2_embedding(const Gpt2Config& config);
std::unique_ptr<Block> make_gpt2_layer(const Gpt2Config& config, int64_t index);
std::unique_ptr<Block> make_gpt2_head(const Gpt2Config& config);

// Dropout sites, numbers of RngKey::tensor: the embedding, then three per layer.
enum class DropoutSite : uint32_t { attention, attention_output, mlp_output };
inline constexpr uint32_t embedding_dropout_site = 0;
inline uint32_t layer_dropout_site(int64_t layer, DropoutSite site) {
  return 1 + 3 * static_cast<uint32_t>(layer) + static_cast<uint32_t>(site);
}

// What all three share: name, parameters, and checks of shapes and calls.
class Gpt2Block : public Block {
 public:
  Gpt2Block(const Gpt2Config& config, std::string name) : config_(config), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  const std::vector<Param>& params() const override { return params_; }
  int64_t output_width() const override { return config_.hidden; }

 protected:
  // Throws core::Error when the model cannot run the shape: an unsupported type or more positions than it has.
  void check_shape(const Shape& shape) const;
  // Throws core::DataError when a token lies outside lowest … vocabulary - 1.
  void check_tokens(const int32_t* tokens, int64_t count, int32_t lowest) const;
  Dropout dropout(const Call& call, uint32_t site) const;  // off outside training
  uint64_t first_element(const Call& call) const;          // dropout index of element (0, 0, 0) of a (B, T, C) tensor
  static GradTarget grad(const Call& call, size_t index);

  Gpt2Config config_;
  std::string name_;
  std::vector<Param> params_;
};

}  // namespace zrt::models

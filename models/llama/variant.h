// Types of models of Llama's layers, each told by what differs: a type's file fills a LlamaVariant, of which a
// LlamaType makes the spec.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/llama/sizes.h"
#include "models/spec.h"

namespace zrt::models {

// Something that several types have: its keys, how they become layers, and its names in Hugging Face's config.json.
// A function that is left out has nothing to do.
struct LlamaFeature {
  std::vector<core::keys::Section> sections{};
  std::vector<ConfigKey> file_keys{};
  std::vector<SizeKey> file_sizes{};
  std::function<void(core::keys::Values&, const ModelSizes&, LlamaConfig&)> read{};  // as ModelSpec::read
  std::function<void(const OrderedJson& model, OrderedJson& config)> write{};        // as HuggingFaceForm's
  std::function<void(const OrderedJson& config, const std::string& name, OrderedJson& model)> parse{};
};

// The values of keys that config.json leaves out, which are those of transformers' class; 0: the type's own rule.
struct LlamaFileSizes {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, sequence, vocab;
  bool kv_heads_may_be_null = true;  // and mean as many as heads
};

struct LlamaVariant {
  const char* type;
  std::vector<const char*> architectures;
  bool tied = false;           // where model.tied is left out
  LlamaDefaults defaults{};    // of zrt's keys
  LlamaConfig layers{};        // switches of its layers; keys fill in the rest
  LlamaFileSizes file_sizes;   // of config.json
  double file_epsilon = 1e-6;  // the same, of rms_norm_eps
  // An export has their keys in this order. One of them writes the activation.
  std::vector<LlamaFeature> features;
  std::vector<Preset> presets;
  // Files may have tensors that are not zrt's parameters (HuggingFaceForm).
  decltype(HuggingFaceForm::tensor_name) tensor_name = nullptr;
  decltype(HuggingFaceForm::fused) fused = nullptr;
  decltype(HuggingFaceForm::expert_place) expert_place = nullptr;
  std::string (*parameter_name)(const std::string& tensor) = nullptr;
};

// Holds the tables that its spec refers to.
class LlamaType {
 public:
  explicit LlamaType(const LlamaVariant& variant);
  LlamaType(const LlamaType&) = delete;
  LlamaType& operator=(const LlamaType&) = delete;

  const ModelSpec& spec() const { return spec_; }

 private:
  std::vector<core::keys::Section> sections_;
  std::vector<SizeKey> sizes_;
  std::vector<ConfigKey> keys_;
  ModelSpec spec_;
};

struct LlamaPresetSizes {
  int64_t layers, hidden, heads, kv_heads, ffn, sequence, vocab;
};
// `more` has further keys.
Preset llama_preset(const char* name, const LlamaPresetSizes& sizes, std::map<std::string, nlohmann::json> more = {});

}  // namespace zrt::models

// A model is an ordered list of blocks with the facts the runtime needs about them.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/adapters.h"
#include "models/block.h"
#include "models/degrees.h"
#include "models/experts.h"
#include "models/rope_scaling.h"
#include "models/sparse_layers.h"
#include "models/window_layers.h"

namespace zrt::models {

struct Gpt2Config {
  int64_t layers = 12, hidden = 768, heads = 12, sequence = 1024, vocab = 50304;
  float dropout = 0;
  bool tied = true;
  Degrees degrees = {};
  SparseLayers sparse = {};
  Experts experts = {};
  Adapters adapters = {};
};

struct LlamaConfig {
  int64_t layers = 12, hidden = 768, heads = 12;
  int64_t kv_heads = 0, head_dim = 0, ffn = 0;  // 0: heads; hidden / heads; llama_ffn(hidden)
  int64_t sequence = 1024, vocab = 32000;
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  float rms_norm_eps = 1e-5f;
  bool tied = false;
  bool head_norms = false;  // of each head's queries and keys, in front of their rotation (Qwen3)
  bool qkv_biases = false;  // of the products that make queries, keys and values (Qwen2)
  WindowLayers windows = {};
  double window_rope_theta = 0;            // of layers with a window, which are not stretched then; 0: as the others
  double query_scalar = 0;                 // scores are divided by its root; 0: by that of head_dim
  float attention_cap = 0, logit_cap = 0;  // soft caps; 0: none
  // Gemma's blocks: GELU in the gate, norms that scale by 1 + their weight, norms behind attention and MLP as well as
  // before, an embedding times the root of `hidden`.
  bool gemma = false;
  Degrees degrees = {};
  SparseLayers sparse = {};
  Experts experts = {};
  Adapters adapters = {};
};
// Width of the MLP as in the paper: 8/3 of hidden (rounded down), up to a multiple of 256.
constexpr int64_t llama_ffn(int64_t hidden) {
  return (8 * hidden / 3 + 255) / 256 * 256;
}

struct Model {
  std::string type;  // "gpt2", "llama"
  int64_t hidden = 0, sequence = 0, vocab = 0, layers = 0;
  int64_t attended = 0;        // elements of a token that all heads of a layer attend with; 0: hidden
  double attention_share = 1;  // of the scores of dense causal attention, those that layers compute
  bool tied = false;
  Degrees degrees = {};              // that its blocks were made for
  Adapters adapters = {};            // that they have
  std::optional<Masking> masking{};  // nothing: tokens see those before them, and targets name every next one
  // Names of parameters that training leaves as they are: they have weights and nothing else.
  std::set<std::string, std::less<>> frozen{};
  std::vector<std::shared_ptr<const Block>> blocks;  // of a whole model the first is the embedding, the last the head

  // Distinct parameters in canonical order (first use), as (block, index into its params()).
  struct ParamRef {
    size_t block, index;
  };
  std::vector<ParamRef> canonical_params() const;
  // Positions among these, where each tensor of a spread parameter counts; that of its first rank.
  std::map<std::string, uint32_t> canonical_numbers() const;
  int64_t parameters() const;         // elements of the distinct parameters, whole
  int64_t active_parameters() const;  // of these, those that a token is computed with
  bool shares_layers = false;         // some layers share parameters (sharing.h): their gradients are added up
  bool trains(const Param& param) const { return !frozen.contains(param.name); }

  // Some of the blocks as a model of their own, which shares them and knows which part of the whole it is: what a stage
  // of a pipeline has. `numbers` ascend.
  Model part(const std::vector<size_t>& numbers) const;
  size_t whole_number(size_t block) const { return positions.empty() ? block : positions[block].number; }
  bool embeds(size_t block) const { return whole_number(block) == 0; }
  bool predicts(size_t block) const { return whole_number(block) + 1 == (whole ? whole->blocks : blocks.size()); }
  bool has_embedding() const { return embeds(0); }
  bool has_head() const { return predicts(blocks.size() - 1); }
  // True where what a block is given comes from another part, or what it makes goes to one.
  bool receives(size_t block) const;
  bool sends(size_t block) const;
  int64_t input_width(size_t block) const { return positions[block].input_width; }  // C, of one that receives
  // A parameter's canonical position in the whole, whether another part has a copy of it, and whether that part uses it
  // first.
  uint32_t number(const Param& param) const { return param_numbers->at(param.name); }  // where there are any
  bool used_elsewhere(const Param& param) const;
  bool used_first_elsewhere(const Param& param) const;

  struct Whole {
    size_t blocks = 0;
    std::map<std::string, std::vector<size_t>> users;  // blocks, by parameter
  };
  std::shared_ptr<const Whole> whole;  // null: this is the whole
  // Canonical positions of parameters in what the model is a part or another form of; null: its own.
  std::shared_ptr<const std::map<std::string, uint32_t>> param_numbers;
  struct BlockPosition {
    size_t number = 0;
    int64_t input_width = 0;
  };
  std::vector<BlockPosition> positions;                                             // of a part, by block
  int64_t targets(int64_t T) const { return masking ? masking->predicted(T) : T; }  // of a sample of T tokens
  // 6 N + 6 · layers · attended · T · attention_share, N without position embeddings; of what is frozen 4 N.
  double flops_per_token() const;
};

// Throws ConfigError (naming model.heads …) when sizes contradict.
Model make_gpt2(const Gpt2Config& config);
Model make_llama(const LlamaConfig& config);

}  // namespace zrt::models

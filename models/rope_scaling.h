// Rules by which rotary positions are stretched for contexts longer than those a model was first trained on: those
// that Hugging Face's rope_type names.
#pragma once
#include <cstdint>
#include <optional>

namespace zrt::models {

struct RopeScaling {
  enum class Rule : uint8_t {
    none,
    // Llama 3.1: pairs that turn less than low_freq_factor times within original_positions turn `factor` times slower,
    // pairs that turn more than high_freq_factor times stay, between them it is a blend.
    llama3,
    linear,   // all pairs turn `factor` times slower (Chen et al., "Extending Context Window of LLMs", 2023)
    dynamic,  // beyond original_positions the base of the frequencies grows with the sequence ("NTK-aware")
    // This is llama3 with beta_slow and beta_fast for its bounds, a blend that is linear in the pair's number, and
    // cosines and sines times a factor of attention (Peng et al., "YaRN", 2023).
    yarn,
  };
  Rule rule = Rule::none;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // of llama3
  int64_t original_positions = 8192;                 // of all but linear
  double beta_fast = 32, beta_slow = 1;              // of yarn, and what follows
  bool truncate = true;                              // the pairs that bound the blend are whole numbers
  std::optional<double> attention_factor = {};       // nothing: what factor, mscale and mscale_all_dim make of it
  double mscale = 0, mscale_all_dim = 0;             // 0: none; both count, or neither
};

}  // namespace zrt::models

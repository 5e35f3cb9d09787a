// Low-rank adapters stand beside the frozen weights of linear layers (Hu et al., "LoRA: Low-Rank Adaptation of Large
// Language Models", 2021); this says beside which. Names follow PEFT: the layer L has L.lora_A.weight (rank, in) and
// L.lora_B.weight (out, rank).
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zrt::models {

struct Adapters {
  int64_t rank = 0;  // 0: the model has none
  double alpha = 16;
  float dropout = 0;     // of what an adapter reads, in training
  bool by_root = false;  // the adapter's part is scaled by alpha / sqrt(rank), not alpha / rank
  std::vector<std::string> targets =
      {};  // empty: all linear layers between embedding and head but those of routed experts

  // It multiplies what an adapter makes.
  float scale() const {
    const auto r = static_cast<double>(rank);
    return static_cast<float>(alpha / (by_root ? std::sqrt(r) : r));
  }
  // A target takes the layers of its name, those whose name ends with a dot and it, and with * or ? in it those whose
  // whole name it matches (fnmatch(3)).
  bool takes(std::string_view layer) const;
  static bool takes(const std::string& target, std::string_view layer);
};

}  // namespace zrt::models

// The experts of a layer: feed-forward parts of which a router picks some for each token, in place of one MLP that
// computes all tokens (Shazeer et al., "Outrageously Large Neural Networks", 2017; Fedus et al., "Switch Transformers",
// 2021). Prototypes are groups of experts, of which each picks one for every token (Yang et al., "M6-T", 2021).
#pragma once
#include <algorithm>
#include <cstdint>

namespace zrt::models {

struct Experts {
  int64_t number = 0;  // of a layer; 0: layers have one MLP
  int64_t ffn = 0;     // width of each
  int64_t top_k = 1;   // experts of a token in each prototype
  int64_t prototypes = 1;
  // An expert takes capacity_factor · choices · rows / number rows of a microbatch, rounded up, where it trains; 0:
  // all.
  double capacity_factor = 0;
  bool normalised = false;          // the gates of a token's experts add up to 1
  double aux_loss = 0, z_loss = 0;  // what the means over tokens of these losses are added to the loss with
  int64_t shared = 0;               // experts beside these that every token is computed with, without a gate
  int64_t every = 1;                // each so many layers have experts: the last of these

  bool has(int64_t layer) const { return number > 0 && (layer + 1) % every == 0; }
  int64_t choices() const { return top_k * prototypes; }  // experts of a token
};

}  // namespace zrt::models

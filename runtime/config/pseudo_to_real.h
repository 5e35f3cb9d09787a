// Pseudo-to-Real: layers share parameters until they are delinked (models/sharing.h).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/sharing.h"

namespace zrt::runtime {

// The optimizer's states as delinked layers take them over. They have seen the sum of the gradients of all layers of a
// group.
enum class StatesAtDelink : uint8_t {
  copy,     // as they are
  reset,    // zero; the count of steps goes on
  rescale,  // divided by the layers of the group, second moments by their square: as if gradients had been equal
};
// Finds one by the name that the configuration has for it; returns nothing for other names.
std::optional<StatesAtDelink> states_at_delink(std::string_view name);

// Layers are delinked when the mean loss of so many steps is not below that of as many before by this share of it.
struct PlateauRule {
  int64_t steps = 0;
  double gain = 0;
};

struct PseudoToReal {
  models::Sharing sharing;
  std::vector<std::string> patterns;  // the entries of `private` that are patterns, each of which must name something
  std::optional<int64_t> at_step;     // a step of the run; without it or a plateau layers share to the end
  std::optional<PlateauRule> plateau;
  StatesAtDelink states = StatesAtDelink::copy;
  double lr_scale = 1;                 // of delinked layers and all others
  int64_t rewarm_steps = 0;            // in which the rate rises to that
  std::optional<int64_t> batch_after;  // samples of a step
};

}  // namespace zrt::runtime

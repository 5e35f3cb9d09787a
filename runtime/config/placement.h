// Says which tier keeps each state of each unit, what every block keeps for its backward, and where, and on which side
// of the link updates run. It is part of a Layout; a pass makes transfers of it (runtime/passes/offload.cpp). Nothing
// here changes a bit of the results.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/ledger.h"

namespace zrt::runtime {

using core::Tier;

// The tiers in which the states of one unit are resident. An op that needs a state elsewhere gets a copy.
struct UnitTiers {
  Tier weight = Tier::device, grad = Tier::device, master = Tier::device;
  std::vector<Tier> states;    // by state kind of the optimizer; those that are missing: device
  Tier update = Tier::device;  // device or host: where sums, folds and the update are computed
  Tier state(size_t kind) const { return kind < states.size() ? states[kind] : Tier::device; }
  bool operator==(const UnitTiers&) const = default;
};

// Says what a block keeps between its forward and its backward, beside its input.
enum class Recompute : uint8_t {
  never,      // all that the backward reads, outputs of norms and activation functions among it, where parts can
  none,       // without these outputs, which the backward makes again from their inputs
  selective,  // without what is large and cheap to compute again
  full,       // nothing: the whole forward runs again
};

// Weights of layers that come to the device as layers are computed and leave it behind them: `layers` next to each
// other are there at a time, and `together` of them come and go at once. (Abbasi et al., "Superpipeline", 2024.)
struct Sliding {
  uint32_t layers = 0, together = 1;  // no layers: none slide
  bool operator==(const Sliding&) const = default;
};

struct Placement {
  std::vector<UnitTiers> units;      // by unit; empty: everything in the device tier
  std::vector<Tier> activations;     // by block: of what its forward keeps for its backward; empty: device
  std::vector<Recompute> recompute;  // by block; empty: none
  Sliding sliding;                   // of all layers of the rank, whose weights are resident elsewhere

  UnitTiers tiers(size_t unit) const { return unit < units.size() ? units[unit] : UnitTiers{}; }
  Tier activation(size_t block) const { return block < activations.size() ? activations[block] : Tier::device; }
  Recompute keeps(size_t block) const { return block < recompute.size() ? recompute[block] : Recompute::none; }
  bool moves() const;  // whether anything is resident outside of the device tier, or updated there
  bool uses(Tier tier) const;
  bool operator==(const Placement&) const = default;
};

}  // namespace zrt::runtime

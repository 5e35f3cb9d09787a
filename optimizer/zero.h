// ZeRO stages as strategies: which of a unit's states a rank holds whole and which only its shard of. Every pass asks
// for extents, never for the stage's number; what is communicated follows from them.
//   weights shard  → gathered before each use, freed after it
//   grads shard    → a block's gradients live in a transient buffer until they are reduced
//   states shard   → a rank updates its shard only; whole weights are gathered after the update
// (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020.)
#pragma once
#include <cstdint>

namespace zrt::optimizer {

enum class Extent : uint8_t { full, shard };

// Says what a rank holds of a unit; `states` is for its optimizer states and its master.
struct Extents {
  Extent weights = Extent::full, grads = Extent::full, states = Extent::full;
};

struct ZeroStrategy : Extents {
  int stage = 0;
  // The values of what a configuration leaves open: gathers before each use are worth hiding, resident gradients worth
  // summing.
  bool overlap_by_default() const { return weights == Extent::shard; }
  int64_t reduce_every_by_default(int64_t microbatches) const { return grads == Extent::full ? microbatches : 1; }
};

// Throws core::ConfigError unless 0 ≤ stage ≤ 3.
ZeroStrategy zero_strategy(int stage);

}  // namespace zrt::optimizer

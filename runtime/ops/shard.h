// Finds a rank's part of a unit in a buffer that holds all of it.
#pragma once
#include <cstddef>

#include "runtime/ops/call.h"

namespace zrt::runtime {

inline std::byte* own_shard(const OpCall& call, std::byte* full, const optimizer::Unit& unit, core::DType type) {
  const int shard = call.rank.layout->mesh.place(unit.shard_axes, call.rank.number);
  return full + static_cast<size_t>(shard * unit.shard) * core::dtype_size(type);
}

// On two levels, the shard of group h's member m is number h × inner + m of the unit, and a member's partial buffer
// holds those of all groups one after the other.
struct Level {
  int64_t groups;  // shards in a partial buffer; 1 where a group has all shards
  int64_t inner;
};
inline Level level_of(const Layout& layout, const optimizer::Unit& unit) {
  return {unit.shards() / layout.mesh.inner(), layout.mesh.inner()};
}

}  // namespace zrt::runtime

// Says who has what of the units that one op refines: they are all sliced, or none is.
#pragma once
#include "runtime/ops/spec.h"
#include "runtime/program/layout.h"

namespace zrt::runtime {

// Ranks are numbered in the op's group (Unit::holder_axes).
class Holding {
 public:
  Holding(const Op& op, const Layout& layout)
      : op_(op),
        layout_(layout),
        holders_(layout.mesh.part(unit(0).holder_axes)),
        shard_axes_(unit(0).shard_axes),
        alike_(unit(0).held.states == optimizer::Extent::full) {}

  const optimizer::Unit& unit(size_t i) const { return layout_.units.units[op_.units[i]]; }
  int ranks() const { return holders_.world(); }
  int slices() const { return holders_.tensor(); }
  int owner(size_t i) const { return owner_of_refined(op_, i, ranks()); }
  // Says who proposes to a unit's owner: all ranks, or one of those that propose the same, the owner among them.
  int proposers() const { return alike_ ? slices() : ranks(); }
  bool proposes(size_t i, int rank) const { return !alike_ || shard(rank) == shard(owner(i)); }

  // The bytes that a rank proposes, and where they lie among the proposals of all: slice by slice.
  uint64_t part_bytes(size_t i) const { return floats(unit(i).extent(unit(i).held.states)); }
  uint64_t offset(size_t i, int rank) const {
    const auto slice = static_cast<uint64_t>(holders_.place(Axis::tensor, rank));
    return slice * floats(unit(i).elements) + (alike_ ? 0 : static_cast<uint64_t>(shard(rank)) * part_bytes(i));
  }
  uint64_t all_bytes(size_t i) const { return static_cast<uint64_t>(slices()) * floats(unit(i).elements); }

 private:
  int shard(int rank) const { return holders_.place(shard_axes_, rank); }
  static uint64_t floats(int64_t elements) { return static_cast<uint64_t>(elements) * sizeof(float); }

  const Op& op_;
  const Layout& layout_;
  const Mesh holders_;
  const Axes shard_axes_;
  const bool alike_;  // data-parallel ranks have the same part of a matrix, not shards of it
};

}  // namespace zrt::runtime

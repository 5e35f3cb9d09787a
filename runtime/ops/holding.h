// Who has what of the units that one op refines: they are all sliced, or none is.
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
        ranks_(layout.mesh.degree(unit(0).holder_axes)),
        slices_(ranks_ / layout.mesh.degree(unit(0).shard_axes)),
        alike_(unit(0).held.states == optimizer::Extent::full) {}

  const optimizer::Unit& unit(size_t i) const { return layout_.units.units[op_.units[i]]; }
  int ranks() const { return ranks_; }
  int slices() const { return slices_; }
  int owner(size_t i) const { return owner_of_refined(op_, i, ranks_); }
  // Who proposes to a unit's owner: all, or of ranks that propose the same one, the owner itself among them.
  int proposers() const { return alike_ ? slices_ : ranks_; }
  bool proposes(size_t i, int rank) const { return !alike_ || rank / slices_ == owner(i) / slices_; }

  // What a rank proposes, and where that lies among the proposals of all: slice by slice.
  uint64_t part_bytes(size_t i) const { return floats(unit(i).extent(unit(i).held.states)); }
  uint64_t offset(size_t i, int rank) const {
    const auto slice = static_cast<uint64_t>(rank % slices_), shard = static_cast<uint64_t>(rank / slices_);
    return slice * floats(unit(i).elements) + (alike_ ? 0 : shard * part_bytes(i));
  }
  uint64_t all_bytes(size_t i) const { return static_cast<uint64_t>(slices_) * floats(unit(i).elements); }

 private:
  static uint64_t floats(int64_t elements) { return static_cast<uint64_t>(elements) * sizeof(float); }

  const Op& op_;
  const Layout& layout_;
  const int ranks_, slices_;
  const bool alike_;  // data-parallel ranks have the same part of a matrix, not shards of it
};

}  // namespace zrt::runtime

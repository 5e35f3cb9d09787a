// Units: the granules of ZeRO. A unit is a flat run of whole parameters that the same blocks use, padded so that every
// data-parallel rank owns an equal shard whose boundaries never cut a 64-element chunk (see ExactSum).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/form.h"
#include "core/mesh.h"
#include "models/model.h"
#include "optimizer/zero.h"

namespace zrt::optimizer {

class Optimizer;

inline constexpr int64_t unit_alignment = 64;  // elements; every parameter and shard starts at a multiple at least

struct UnitParam {
  const models::Param* param = nullptr;  // owned by the model
  int64_t offset = 0;                    // elements from the unit's start
  uint32_t number = 0;                   // position in the model's canonical order: key of its random numbers
  // The canonical number of the tensor that ranks of this place along core::Axis::expert have.
  uint32_t number_at(int place) const {
    return number + (param != nullptr && param->spread ? static_cast<uint32_t>(place) * param->spread->tensors : 0);
  }
};

struct Unit {
  std::string name;  // first and last parameter
  std::vector<UnitParam> params;
  std::vector<uint32_t> blocks;  // users, ascending; several for tied and shared parameters
  int64_t elements = 0;          // with padding: a multiple of its replicas × the cut's alignment
  int64_t shard = 0;             // elements of one of the equal parts that its states are cut into
  uint32_t group = 0;            // of its parameters: Optimizer::group_of; means nothing where it is frozen
  Extents held;                  // by each rank
  // Each of the ranks that differ along these axes alone has a shard of its states, in the order of their places.
  core::Axes shard_axes = core::data_axes;
  // Each of the ranks along these axes has states of a part of its whole tensors: shards, and where tensors are sliced,
  // slices of these.
  core::Axes holder_axes = core::data_axes;
  // Each of the ranks along these axes makes a part of its gradient: they add these up.
  core::Axes gradient_axes = core::data_axes;
  // Each of the ranks along these axes has the same tensors and does the same on other samples. These are all
  // data-parallel ranks, but for a unit of experts that are spread over ranks.
  core::Axes replica_axes() const { return gradient_axes.without(core::Axis::tensor); }
  core::Axes apart_axes() const { return core::data_axes.without(replica_axes()); }  // each rank has other tensors
  // The unit has one parameter, which another stage of a pipeline uses too: each stage has a copy, and they add up
  // their gradients. The stage that uses it first counts it, in norms and checkpoints.
  bool copied = false, counted_elsewhere = false;
  bool of_layers = false;  // a copied one: layers of several stages share it, else the first and the last stage
  // Without it the unit is frozen: it has weights and nothing else, and a step only reads them.
  bool trained = true;
  // Nothing: its weights are kept in the compute type. Else in few bits, made numbers again in front of each use.
  std::optional<core::Form> packed = {};
  int64_t parameters() const;  // elements without padding
  int shards() const { return static_cast<int>(elements / shard); }
  bool sliced() const { return holder_axes != shard_axes; }
  bool spread() const { return apart_axes() != core::Axes(); }
  core::Axes slice_axes() const { return holder_axes.without(shard_axes); }  // each has slices of the same tensors
  core::Axes part_axes() const { return apart_axes() | slice_axes(); }
  int64_t extent(Extent of) const { return of == Extent::full ? elements : shard; }  // elements
  // Ranks have the whole weight but update only their shard of it: it is gathered before its next use.
  bool refreshes() const { return trained && held.weights == Extent::full && held.states == Extent::shard; }
};

// The elements of a unit that a rank saves: its shard, or of a shard that several ranks hold, its part.
struct SavedPart {
  int64_t begin, count;
  int64_t skipped;  // of the shard, in front of it
  // The first of them in what a rank holds.
  int64_t offset(Extent held) const { return held == Extent::full ? begin : skipped; }
};
SavedPart saved_part(const Unit& unit, const core::Mesh& mesh, int rank);

// Says where a block finds its parameters: params()[i] is at `offset` of unit `unit`.
struct ParamPlace {
  uint32_t unit;
  int64_t offset;
};
// Says how units are cut: shards lie on the ranks that differ along `shard_axes`, and ranks hold what `held` says.
// Parameters and shards start at multiples of `alignment` elements, itself a multiple of unit_alignment.
// `frozen`: the form in which matrices of layers are kept that are not trained.
struct Cut {
  core::Mesh mesh;
  core::Axes shard_axes = core::data_axes;
  Extents held = {};
  int64_t alignment = unit_alignment;
  std::optional<core::Form> frozen = {};
};
struct UnitTable {
  Cut cut;
  std::vector<Unit> units;                      // in canonical parameter order
  std::vector<std::vector<ParamPlace>> params;  // [block][index into Block::params()]
  std::vector<std::vector<uint32_t>> blocks;    // [block] → its units: trained ones, then frozen ones, each ascending
  int64_t padding() const;                      // elements that are no parameter
  // The number of a block's units that are trained: its gradients are those of so many, from the first.
  size_t trained(std::span<const uint32_t> units_of_block) const;
};

// Says which parameters stay whole on every rank even where weights are sharded: those smaller than `parameter`
// elements, as long as all of them together have at most `model` elements (DeepSpeed's persistence thresholds).
struct Persistence {
  int64_t parameter = 0, model = INT64_MAX;
};

// Cuts the model into units of at most `unit_elements` elements. A parameter larger than that is a unit of its own: an
// operator needs its weight in one piece. Persistent parameters with the same users share units of their own, and so do
// frozen ones and those of a group; each that the optimizer refines is one of its own. Without an optimizer there is
// one group.
UnitTable make_units(const models::Model& model, const Cut& cut, int64_t unit_elements, Persistence persistence = {},
                     const Optimizer* optimizer = nullptr);
inline UnitTable make_units(const models::Model& model, int dp, int64_t unit_elements) {
  return make_units(model, Cut{core::Mesh(dp, 1, 1), core::data_axes, {}, unit_alignment}, unit_elements);
}

}  // namespace zrt::optimizer

// Everything the passes need to know: what a run is, what was decided, and for which blocks and units.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "models/model.h"
#include "optimizer/unit.h"
#include "runtime/program/decisions.h"
#include "runtime/program/order.h"
#include "runtime/program/program.h"
#include "runtime/program/run_settings.h"

namespace zrt::runtime {

// Whether blocks share parameters: none do, only the first with one other, or others.
enum class Sharing { none, first_block, elsewhere };

// Which part of a pipeline a layout is of: its model and units are those of the stage alone.
struct Stage {
  Schedule schedule;  // of one stage: there is no pipeline; `group` is 1 but where it is interleaved
  int index = 0;
  bool pipelined() const { return schedule.stages > 1; }
  // With several chunks: how many microbatches sooner than they are needed outputs come from the last stage to the
  // first, and their gradients back.
  uint32_t early() const { return schedule.chunks > 1 ? static_cast<uint32_t>(schedule.group - schedule.stages) : 0; }
};

struct Layout : RunSettings, Decisions {
  std::shared_ptr<const models::Model> model;
  optimizer::UnitTable units;
  Stage stage;

  // The axes of the ranks that a unit's states are cut among: the ranks of one set of shards.
  Axes state_axes() const { return groups.replicated ? Axes(Axis::inner) : data_axes; }
  int shards() const { return mesh.degree(state_axes()); }
  int shard_of(int rank) const { return mesh.place(state_axes(), rank); }
  // … of the ranks that have the states of a unit's whole tensors among them, and a rank's number in that group: where
  // tensors are sliced, tensor-parallel neighbours one behind the other.
  Axes holder_axes(const optimizer::Unit& unit) const {
    return unit.sliced ? state_axes() | Axis::tensor : state_axes();
  }
  int slices(const optimizer::Unit& unit) const { return unit.sliced ? mesh.tensor() : 1; }
  int holders(const optimizer::Unit& unit) const { return mesh.degree(holder_axes(unit)); }
  int holder(const optimizer::Unit& unit, int rank) const { return mesh.place(holder_axes(unit), rank); }
  // Whether ranks that share blocks share the rows of the residual stream, too, and of how many each has room for.
  bool shares_rows() const { return mesh.tensor() > 1 && sequence_parallel; }
  int64_t row_share(const models::Shape& shape) const {
    return shares_rows() ? (shape.rows() + mesh.tensor() - 1) / mesh.tensor() : shape.rows();
  }
  // Of what a rank has of a tensor that goes from block to block.
  uint64_t stream_bytes(int64_t width, const models::Shape& shape) const {
    return static_cast<uint64_t>(row_share(shape) * width) * core::dtype_size(shape.type);
  }
  // Of rows that go from stage to stage: each rank that shares blocks sends the rows it has or, where all have all of
  // them, an equal share of their elements, of which the last may reach beyond them.
  uint64_t boundary_bytes(int64_t width, const models::Shape& shape) const;
  // The elements of a unit that a rank saves: its shard, or of a shard that several ranks hold, its part.
  struct Piece {
    int64_t begin, count, skipped;  // `skipped`: of the shard, in front of it
  };
  Piece piece(const optimizer::Unit& unit, int rank) const {
    const int64_t count = unit.elements / mesh.data();
    const int64_t skipped = groups.replicated ? mesh.place(Axis::outer, rank) * count : 0;
    return {shard_of(rank) * unit.shard + skipped, count, skipped};
  }
  // Where that piece lies in a rank's buffer of the unit's logical weights (source 0) or of the nth state kind (n + 1).
  int64_t piece_offset(const optimizer::Unit& unit, int rank, size_t source) const {
    optimizer::Extent held = zero.states;
    if (source == 0 && !has_master()) held = weights(unit);
    if (source > 0 && !optimizer->states(unit)[source - 1].sharded) return 0;
    const Piece saved = piece(unit, rank);
    return held == optimizer::Extent::full ? saved.begin : saved.skipped;
  }
  bool has_master() const { return compute != core::DType::f32 && master; }
  // Of the weights that updates work on and checkpoints save; without a master bf16 or, where nothing is trained, fp16.
  core::DType logical_type() const { return has_master() ? core::DType::f32 : compute; }
  core::Form logical_form() const { return logical_type() == core::DType::f32 ? core::Form::f32 : core::Form::bf16; }
  models::Shape shape(models::Mode mode) const {
    return {mode == models::Mode::decode ? 1 : micro_batch, sequence, compute, local_grad, mode, fp8};
  }
  uint32_t windows() const { return microbatches / reduce_every; }
  Sharing sharing() const;
  // How many microbatches go through a block before the next block.
  uint32_t together() const;
  // Whether gradients of several microbatches are summed in the resident gradient itself.
  bool reduces_in_place() const { return zero.grads == optimizer::Extent::full && reduce_every == microbatches; }
  optimizer::Extent weights(const optimizer::Unit& unit) const {
    return unit.persistent ? optimizer::Extent::full : zero.weights;
  }
  // Whether ranks hold the whole weight but update only their shard of it, so that it is gathered before its next use.
  bool refreshes(const optimizer::Unit& unit) const {
    return weights(unit) == optimizer::Extent::full && zero.states == optimizer::Extent::shard;
  }
  // Elements that a rank holds of a unit, or of one of its optimizer states.
  int64_t extent(const optimizer::Unit& unit, optimizer::Extent extent) const {
    return extent == optimizer::Extent::full ? unit.elements : unit.shard;
  }
  int64_t extent(const optimizer::Unit& unit, const optimizer::UnitState& state) const {
    return state.sharded ? extent(unit, zero.states) : state.elements;
  }
  uint64_t bytes(const optimizer::Unit& unit, const optimizer::UnitState& state) const {
    return core::form_bytes(state.form, extent(unit, state));
  }
};

}  // namespace zrt::runtime

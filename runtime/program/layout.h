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

// Says which blocks share parameters: none do, only the first with one other, or others.
enum class Sharing { none, first_block, elsewhere };

// The part of a pipeline that a layout is of: its model and units are those of the stage alone.
struct Stage {
  Schedule schedule;  // of one stage: there is no pipeline; `group` is 1 but where it is interleaved
  int index = 0;
  int sharing = 1;  // stages next to each other whose layers share parameters: each so many of the pipeline
  bool pipelined() const { return schedule.stages > 1; }
  // Counts the microbatches by which outputs of the last stage reach the first sooner than they are needed, and
  // gradients the last, where stages have several chunks.
  uint32_t early() const { return schedule.chunks > 1 ? static_cast<uint32_t>(schedule.group - schedule.stages) : 0; }
};

struct Layout : RunSettings, Decisions {
  std::shared_ptr<const models::Model> model;
  optimizer::UnitTable units;
  Stage stage;

  // True where ranks that share blocks share the rows of the residual stream, too: each has room for row_share().
  bool shares_rows() const { return model->degrees.shares_rows(); }
  int64_t row_share(const models::Shape& shape) const {
    return shares_rows() ? (shape.rows() + mesh.tensor() - 1) / mesh.tensor() : shape.rows();
  }
  // Returns the bytes that a rank has of a tensor that goes from block to block.
  uint64_t stream_bytes(int64_t width, const models::Shape& shape) const {
    return static_cast<uint64_t>(row_share(shape) * width) * core::dtype_size(shape.type);
  }
  // Returns the bytes of rows that go from stage to stage: each rank that shares blocks sends the rows it has or, where
  // all have all of them, an equal share of their elements, of which the last may reach beyond them.
  uint64_t boundary_bytes(int64_t width, const models::Shape& shape) const;
  bool has_master(const optimizer::Unit& unit) const { return unit.trained && compute != core::DType::f32 && master; }
  // The type of the weights that updates work on and checkpoints save; without a master blocks read the same.
  core::DType logical_type(const optimizer::Unit& unit) const { return has_master(unit) ? core::DType::f32 : compute; }
  // Says how much of those a rank holds.
  optimizer::Extent logical_extent(const optimizer::Unit& unit) const {
    return has_master(unit) ? unit.held.states : unit.held.weights;
  }
  core::Form logical_form(const optimizer::Unit& unit) const { return core::form_of(logical_type(unit)); }
  // The forms in which the weights are kept that blocks read, and those that checkpoints save.
  core::Form weight_form(const optimizer::Unit& unit) const { return unit.packed.value_or(core::form_of(compute)); }
  core::Form saved_form(const optimizer::Unit& unit) const { return unit.packed.value_or(logical_form(unit)); }
  // Says that a unit's weights are brought together, or made numbers, in front of each use.
  bool gathers(const optimizer::Unit& unit) const {
    return unit.packed || unit.held.weights == optimizer::Extent::shard;
  }
  // Rows and types are the same for all blocks; what a block keeps is its own.
  models::Shape shape(models::Mode mode) const {
    models::Shape shape{mode == models::Mode::decode ? 1 : micro_batch, sequence, compute, local_grad, mode, fp8};
    shape.documents = documents && mode != models::Mode::decode;
    return shape;
  }
  models::Shape shape(models::Mode mode, size_t block) const {
    models::Shape shape = this->shape(mode);
    shape.keeps_outputs = mode == models::Mode::train && placement.keeps(block) == Recompute::never;
    return shape;
  }
  // Targets of a step's samples, of all ranks.
  int64_t targets() const { return micro_batch * model->targets(sequence) * mesh.data() * microbatches; }
  uint32_t windows() const { return microbatches / reduce_every; }
  Sharing sharing() const;
  // Returns the number of microbatches that go through a block before the next block.
  uint32_t together() const;
  // True where gradients of several microbatches are summed in the resident gradient itself.
  bool reduces_in_place() const { return zero.grads == optimizer::Extent::full && reduce_every == microbatches; }
};

}  // namespace zrt::runtime

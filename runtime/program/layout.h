// Everything the passes need to know about one run: model, units, strategy, batch, types. Made once from the config.
#pragma once
#include <cstdint>
#include <optional>

#include "core/device.h"
#include "core/dtype.h"
#include "models/model.h"
#include "optimizer/state.h"
#include "optimizer/unit.h"
#include "optimizer/zero.h"
#include "runtime/config/placement.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

// How data-parallel ranks are grouped for communication. Groups are runs of `inner` consecutive ranks: a host, or an
// island of fast links.
struct Grouping {
  int inner = 1;              // ranks of a group; 1: no groups
  bool hierarchical = false;  // gathers go between groups, then inside; reductions the other way round (other bits)
  bool secondary = false;     // ZeRO++ hpZ: what a forward's gather brought into the group stays until the backward
  bool replicated = false;    // MiCS: states are cut among the ranks of a group only, and equal in all groups
};

struct Layout {
  const models::Model* model = nullptr;
  optimizer::UnitTable units;
  optimizer::ZeroStrategy zero{};
  optimizer::OptimizerParams optimizer;
  core::DeviceKind device = core::DeviceKind::cpu;  // that ranks compute on
  int dp = 1;
  Grouping groups;
  core::DType compute = core::DType::f32;
  bool master = true;                         // weights of fewer bits have an fp32 master, which updates work on
  bool fp8 = false;                           // products of linear layers round their operands
  core::DType local_grad = core::DType::f32;  // of the gradient a rank hands to a reduction
  core::DType grad = core::DType::f32;        // of the reduced, accumulated gradient
  uint32_t microbatches = 1;                  // gradient_accumulation_steps
  uint32_t reduce_every = 1;
  int64_t micro_batch = 1;
  int64_t sequence = 1;
  int64_t reduce_bucket = 0, gather_bucket = 0;  // elements of one collective, at least one unit
  MicrobatchOrder order = MicrobatchOrder::automatic;
  // A unit is updated as soon as its gradient of the step is complete, before the norm of the whole gradient is known:
  // nothing is clipped and no step can be skipped.
  bool early_updates = false;
  Placement placement;
  double link_bytes_per_second = 0;  // between the device and the host tier, each way, slowed down to it; 0: not
  bool open_placement = false, open_recompute = false;  // budgets may change it: MemoryConfig, of the same names
  bool open_activations = true;                         // … where activations are at home, too
  bool overlap = false;
  // Elements of weights that may be gathered ahead of the block that computes. None: as many as DeepSpeed's default,
  // and the next block in any case.
  std::optional<int64_t> prefetch;
  int64_t max_live = INT64_MAX;  // elements of weights that are gathered at any time, beyond the block that computes
  bool reuse_at_turn = true;     // keep the units of the last block gathered between its forward and its backward

  std::vector<Group> group_table() const;
  int shards() const { return groups.replicated ? groups.inner : dp; }  // ranks that a unit's states are cut among
  int shard_of(int rank) const { return rank % shards(); }
  // The ranks of one set of shards.
  GroupKind state_group() const { return groups.replicated ? GroupKind::data_inner : GroupKind::data; }
  // The elements of a unit that a rank saves: its shard, or of a shard that several ranks hold, its part.
  struct Piece {
    int64_t begin, count;
  };
  Piece piece(const optimizer::Unit& unit, int rank) const {
    const int64_t count = unit.elements / dp;
    return {shard_of(rank) * unit.shard + rank / shards() * count, count};
  }
  // Where that piece lies in a rank's buffer of the unit's logical weights (source 0) or of the nth state kind (n + 1).
  int64_t piece_offset(const optimizer::Unit& unit, int rank, size_t source) const {
    optimizer::Extent held = zero.states;
    if (source == 0 && !has_master()) held = weights(unit);
    if (source > 0 && !optimizer::unit_states(optimizer, unit)[source - 1].sharded) return 0;
    return piece(unit, rank).begin - (held == optimizer::Extent::full ? 0 : shard_of(rank) * unit.shard);
  }
  bool has_master() const { return compute != core::DType::f32 && master; }
  // Of the weights that updates work on and checkpoints save; without a master bf16 or, where nothing is trained, fp16.
  core::DType logical_type() const { return has_master() ? core::DType::f32 : compute; }
  core::Form logical_form() const { return logical_type() == core::DType::f32 ? core::Form::f32 : core::Form::bf16; }
  models::Shape shape(models::Mode mode) const {
    return {mode == models::Mode::decode ? 1 : micro_batch, sequence, compute, local_grad, mode, fp8};
  }
  // What the forward of a block leaves out that its backward reads. Embedding and head leave nothing out, nor does a
  // block that has nothing to.
  Recompute recompute(size_t block) const;
  models::Shape shape(models::Mode mode, size_t block) const;  // … and keeps that
  uint32_t windows() const { return microbatches / reduce_every; }
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

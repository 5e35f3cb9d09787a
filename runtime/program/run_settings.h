// The settings of a run, whatever is decided about it and whichever of its ranks is looked at. They are made once from
// the configuration.
#pragma once
#include <cstdint>

#include "core/device.h"
#include "core/dtype.h"
#include "core/mesh.h"
#include "optimizer/optimizer.h"
#include "optimizer/zero.h"
#include "runtime/config/update_when.h"

namespace zrt::runtime {

// Says how a run uses its islands of data-parallel ranks (core::island_axes).
struct Grouping {
  bool hierarchical = false;  // gathers go between groups, then inside; reductions the other way round (other bits)
  bool secondary = false;     // ZeRO++ hpZ: what a forward's gather brought into the group stays until the backward
  bool replicated = false;    // MiCS: states are cut among the ranks of a group only, and equal in all groups
  core::Axes shard_axes() const { return replicated ? core::island_axes : core::data_axes; }
};

struct RunSettings {
  optimizer::ZeroStrategy zero{};
  optimizer::OptimizerPtr optimizer = make_optimizer(optimizer::AdamParams{});
  core::DeviceKind device = core::DeviceKind::cpu;  // that ranks compute on
  core::Mesh mesh;
  int ranks_in_reach = 0;  // so many, one after another, read each other's memory (Config::ranks_in_reach); 0: all
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
  bool documents = false;                        // samples hold several, each of which attends to itself alone
  int64_t reduce_bucket = 0, gather_bucket = 0;  // elements of one collective, at least one unit
  UpdateWhen update_when = UpdateWhen::after_norm;
  double link_bytes_per_second = 0;  // between the device and the host tier, each way, slowed down to it; 0: not
  bool overlap = false;
  int64_t max_live = INT64_MAX;  // elements of weights that are gathered at any time, beyond the block that computes
  bool reuse_at_turn = true;     // keep the units of the last block gathered between its forward and its backward

  bool early_updates() const { return update_when == UpdateWhen::as_ready; }
  bool late_updates() const { return update_when == UpdateWhen::next_forward; }
};

}  // namespace zrt::runtime

#include <algorithm>
#include <vector>

#include "runtime/ops/shard.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

using optimizer::Extent;

core::DType held_type(const Layout& layout) {
  return layout.reduces_in_place() ? layout.local_grad : layout.grad;
}

// Says that the ranks of a group have the same shard of a unit and add up copies or parts of it: they are not those
// that its states are cut among, on one level or on two.
bool sums_shards(const Op& op, Axes group, const optimizer::Unit& unit) {
  const bool partial = std::any_of(op.accesses.begin(), op.accesses.end(),
                                   [](const Access& access) { return access.role == Role::partial; });
  return !partial && group != unit.shard_axes;
}

void run_reduce_grad(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const core::DType held = held_type(layout);
  core::DType from = layout.local_grad, to = held;
  std::vector<comm::ReduceRange> ranges;
  for (size_t i = 0; i < call.op.units.size(); ++i) {
    const optimizer::Unit& unit = call.unit(i);
    std::byte *local = call.at(Role::local_grad, i), *grad = call.at(Role::grad, i);
    const Access* const partial = call.find(Role::partial, i);
    if (!local) local = grad;  // in place
    if (grad && unit.held.grads == Extent::full) grad = own_shard(call, grad, unit, to);
    if (sums_shards(call.op, call.group(), unit)) {
      call.comm().all_reduce(grad, unit.shard, held, call.op.name);
    } else if (partial && partial->use == Use::read) {  // between islands
      ranges.push_back({call.address(*partial), grad, unit.shard, call.op.accumulate[i] != 0});
    } else if (partial) {  // inside islands
      to = from;
      const Level level = level_of(layout, unit);
      for (int64_t group = 0; group < level.groups; ++group) {
        const auto at = static_cast<size_t>(group * unit.shard) * core::dtype_size(from);
        ranges.push_back(
            {local + at * static_cast<size_t>(level.inner), call.address(*partial) + at, unit.shard, false});
      }
    } else {
      ranges.push_back({local, grad, unit.shard, call.op.accumulate[i] != 0});
    }
  }
  if (!ranges.empty()) call.comm().reduce_scatter(ranges, from, to, call.op.name);
}

Volume reduced_volume(const ProgramSet& set, const Op& op, const Layout& layout) {
  Volume volume;
  const Axes group = set.group(op).axes;
  volume.sums = true;
  volume.from = layout.local_grad, volume.to = held_type(layout);
  volume.bytes = role_bytes(set, op, Role::local_grad);
  for (const Access& access : op.accesses) {
    // The inner level hands partial sums to the outer one.
    if (access.role == Role::partial && group == island_axes) volume.to = volume.from;
    if (access.role != Role::partial || access.use != Use::read) continue;
    volume.bytes += static_cast<double>(set.buffers[access.buffer].bytes);
  }
  if (volume.bytes > 0) return volume;
  // In place; between groups that are replicas of each other, between copies, and of ranks that share the work of
  // blocks, an all-reduce of the shard.
  volume.bytes = role_bytes(set, op, Role::grad);
  const optimizer::Unit& unit = layout.units.units[op.units.front()];
  if (sums_shards(op, group, unit)) {
    volume.rounds = 2;
    volume.from = volume.to, volume.calls = op.units.size();
    if (unit.held.grads == Extent::full) volume.bytes /= unit.shards();
  }
  return volume;
}

}  // namespace

std::vector<OpSpec> reduce_ops() {
  return {{.kind = OpKind::reduce_grad,
           .name = "reduce_grad",
           .phases = {"step"},
           .operands = {{Role::local_grad, Count::some_units, may_read},
                        {Role::grad, Count::some_units, may_write | may_update},
                        {Role::partial, Count::some_units, may_read | may_write}},
           .run = run_reduce_grad,
           .volume = reduced_volume,
           .travel = Travel::behind,
           .type = [](const Layout& layout, const Op&) { return layout.local_grad; }}};
}

}  // namespace zrt::runtime

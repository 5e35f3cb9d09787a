#include "runtime/ops/spec.h"

#include <algorithm>

namespace zrt::runtime {
namespace {

std::vector<OpSpec> all_rows() {
  std::vector<OpSpec> all;
  for (auto* rows : {
           init_ops,
           batch_ops,
           block_ops,
           gather_ops,
           reduce_ops,
           control_ops,
           update_ops,
           refine_ops,
           export_ops,
           transfer_ops,
           link_ops,
           exchange_ops,
       }) {
    for (OpSpec& row : rows()) all.push_back(std::move(row));
  }
  std::sort(all.begin(), all.end(), [](const OpSpec& a, const OpSpec& b) { return a.kind < b.kind; });
  return all;
}

}  // namespace

std::span<const OpSpec> op_specs() {
  static const std::vector<OpSpec> all = all_rows();
  return all;
}

const OpSpec& spec(OpKind kind) {
  return op_specs()[static_cast<size_t>(kind)];
}

OpCost op_cost(const ProgramSet& set, const Op& op, const Layout& layout, const Cluster& cluster) {
  const OpSpec& row = spec(op.kind);
  if (!row.volume) return row.cost({set, op, layout, cluster});
  const Software& software = cluster.software;
  const bool gathers = op.kind == OpKind::gather, reduces = op.kind == OpKind::reduce_grad;
  Volume volume = row.volume(set, op, layout);
  if (gathers || reduces) volume.share_between = software.between_hosts_share;
  if ((gathers || reduces) && software.call_per_tensor) {
    volume.latencies = 0;
    for (const uint32_t u : op.units) volume.latencies += layout.units.units[u].params.size();
  }
  OpCost cost = collective_cost(op, set.group(op), volume, layout, cluster);
  if (gathers_packed(op, layout))
    cost.seconds += role_bytes(set, op, Role::full_state) / cluster.memory_bytes_per_second;
  // The second exchange of a layer is as large as the first.
  if (op.again && software.whole_recompute) cost.seconds *= 2;
  cost.blocks = (gathers && software.blocking_gathers) || (reduces && software.blocking_reductions) ||
                (op.kind == OpKind::exchange && software.blocking_exchanges);
  return cost;
}

bool gathers_packed(const Op& op, const Layout& layout) {
  const bool of_weights = op.kind == OpKind::gather || op.kind == OpKind::gather_state;
  return of_weights && !op.units.empty() && layout.units.units[op.units.front()].packed;
}

double access_bytes(const ProgramSet& set, const Op& op, std::optional<Use> use) {
  double bytes = 0;
  for (const Access& access : op.accesses) {
    if (!use || access.use == *use) bytes += static_cast<double>(set.buffers[access.buffer].bytes);
  }
  return bytes;
}

double role_bytes(const ProgramSet& set, const Op& op, Role role) {
  double bytes = 0;
  for (const Access& access : op.accesses) {
    if (access.role == role) bytes += static_cast<double>(set.buffers[access.buffer].bytes);
  }
  return bytes;
}

Volume gathered_volume(const ProgramSet& set, const Op& op, const Layout& layout) {
  Volume volume;
  volume.copies = false;
  if (gathers_packed(op, layout)) {
    volume.copies = true;
    volume.bytes = role_bytes(set, op, Role::packed);
    return volume;
  }
  for (const Access& access : op.accesses) {
    if (access.use == Use::read) {
      volume.copies = true;
      continue;
    }
    const bool whole = access.role == Role::full_state || access.role == Role::partial || access.role == Role::shares ||
                       access.role == Role::sums;
    if (whole) volume.bytes += static_cast<double>(set.buffers[access.buffer].bytes);
  }
  return volume;
}

OpCost no_cost(const CostCall& call) {
  return memory_cost(0, false, call.cluster);
}

OpCost cost_at_memory(const CostCall& call, double bytes) {
  const auto& lanes = call.set.lanes;
  return memory_cost(bytes, call.op.lane < lanes.size() && lanes[call.op.lane].kind == LaneKind::host, call.cluster);
}

OpCost touched_bytes_cost(const CostCall& call) {
  return cost_at_memory(call, access_bytes(call.set, call.op));
}

}  // namespace zrt::runtime

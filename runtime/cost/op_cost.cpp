#include "runtime/cost/op_cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace zrt::runtime {
namespace {

double as_double(int64_t x) {
  return static_cast<double>(x);
}

// Bytes of the slots that the accesses for which `counts` holds touch.
template <class Counts>
double counted_bytes(const ProgramSet& set, const Op& op, Counts counts) {
  double bytes = 0;
  for (const Access& access : op.accesses) {
    if (counts(access)) bytes += static_cast<double>(set.buffers[access.buffer].bytes);
  }
  return bytes;
}

OpCost collective_cost(const ProgramSet& set, const Op& op, const Layout& layout, const Cluster& cluster) {
  const HostSpread at = host_spread(op.span, layout, cluster.ranks_per_host);
  const Volume volume = collective_volume(set, op, layout);
  const double share = volume.bytes / at.ranks;  // of one rank
  OpCost cost{cluster.op_seconds, at.hosts > 1 ? Resource::between_hosts : Resource::inside_host};
  if (op.kind == OpKind::reduce_grad) {
    cost.seconds += volume.bytes / cluster.rates(layout.local_grad).sum_bytes_per_second;
  } else if (volume.copies) {
    cost.seconds += 2 * share / cluster.memory_bytes_per_second;
  }
  if (at.ranks == 1) return cost;

  const bool once = cluster.exchange == Exchange::once_per_host;
  const double hops_inside = once ? at.ranks - at.hosts : std::min(at.local - 1, 1);
  const double received_inside = share * (once ? at.ranks - 1 : at.local - 1);
  double moving = received_inside / cluster.inside_host.bytes_per_second;
  cost.seconds += volume.rounds * hops_inside * cluster.inside_host.latency_seconds;
  if (at.hosts > 1) {
    if (!cluster.between_hosts) {
      throw core::ConfigError(
          fmt::format("'{}' joins ranks of {} hosts, {} on each, but cluster {} has no link between_hosts. Use at most "
                      "{} ranks, or "
                      "add the link to the cluster's file.",
                      op.name, at.hosts, cluster.ranks_per_host, cluster.name, cluster.ranks_per_host));
    }
    const double through_host = at.groups * share * (once ? at.ranks - at.fewest : at.local * (at.ranks - at.local));
    cost.seconds += volume.rounds * (once ? at.hosts - 1 : 1) * cluster.between_hosts->latency_seconds;
    // Both kinds of link work at once.
    moving = std::max(moving, through_host / cluster.between_hosts->bytes_per_second);
  }
  cost.seconds += volume.rounds * moving;
  return cost;
}

core::DType type_of(Role role, const Layout& layout) {
  return role == Role::weight ? layout.compute : role == Role::grad ? layout.grad : core::DType::f32;
}

// Bytes that an optimizer op moves: the part of each buffer that belongs to the elements it works on, twice where it is
// read and written.
double state_bytes(const ProgramSet& set, const Op& op, const Layout& layout, optimizer::Extent extent) {
  double bytes = 0;
  for (const Access& access : op.accesses) {
    if (access.role == Role::control) continue;  // small, and in a cache
    const Buffer& buffer = set.buffers[access.buffer];
    const optimizer::Unit& unit = layout.units.units[op.units.front()];
    // A copy that was brought here may hold no more than the part.
    const bool whole =
        buffer.bytes > static_cast<uint64_t>(unit.shard) * core::dtype_size(type_of(access.role, layout));
    const optimizer::Extent held = access.role == Role::weight ? layout.weights(unit)
                                   : access.role == Role::grad ? layout.zero.grads
                                                               : layout.zero.states;
    const bool part = whole && extent == optimizer::Extent::shard && held == optimizer::Extent::full &&
                      (access.role == Role::weight || access.role == Role::grad || access.role == Role::master ||
                       access.role == Role::state);
    bytes += static_cast<double>(buffer.bytes) * (access.use == Use::update ? 2 : 1) / (part ? layout.shards() : 1);
  }
  return bytes;
}

double block_seconds(const ProgramSet& set, const Op& op, const Layout& layout, const Cluster& cluster) {
  const models::Mode mode = op.kind == OpKind::decode     ? models::Mode::decode
                            : op.kind == OpKind::evaluate ? models::Mode::eval
                                                          : models::Mode::train;
  const models::Block& block = *layout.model->blocks[op.block];
  const models::Shape shape = layout.shape(mode, op.block);
  const bool last = op.block + 1 == layout.model->blocks.size();
  const BlockCost cost = block_cost(block, shape, last, cluster.rates(layout.compute), cluster.memory_bytes_per_second);
  // Where a block names its FLOPs; else all of the forward.
  const double flops = block.forward_flops(shape);
  if (op.kind == OpKind::recompute) {
    return cost.forward_seconds * (flops > 0 ? block.recompute_flops(shape) / flops : 1);
  }
  if (op.kind != OpKind::backward) return cost.forward_seconds;
  // Gradients of weights are written whole, by products and by passes alike.
  const double grads = counted_bytes(set, op, [](const Access& access) { return access.role == Role::local_grad; });
  return cost.backward_seconds + grads / cluster.memory_bytes_per_second;
}

}  // namespace

Volume collective_volume(const ProgramSet& set, const Op& op, const Layout& layout) {
  Volume volume;
  if (op.kind != OpKind::reduce_grad) {
    volume.bytes = counted_bytes(set, op, [](const Access& access) {
      const bool whole = access.role == Role::full_state || access.role == Role::partial ||
                         access.role == Role::shares || access.role == Role::sums;
      return whole && access.use != Use::read;
    });
    volume.copies = std::any_of(op.accesses.begin(), op.accesses.end(),
                                [](const Access& access) { return access.use == Use::read; });
    return volume;
  }
  volume.bytes = counted_bytes(set, op, [](const Access& access) {
    return access.role == Role::local_grad || (access.role == Role::partial && access.use == Use::read);
  });
  if (volume.bytes > 0) return volume;
  // In place; between groups that are replicas of each other, an all-reduce of the shard.
  volume.bytes = counted_bytes(set, op, [](const Access& access) { return access.role == Role::grad; });
  if (op.span == Span::outer) {
    volume.rounds = 2;
    if (layout.zero.grads == optimizer::Extent::full) volume.bytes /= layout.shards();
  }
  return volume;
}

BlockCost block_cost(const models::Block& block, const models::Shape& shape, bool last, const ComputeRates& rates,
                     double memory_bytes_per_second) {
  double products = 0, product_flops = 0, activations = 0;
  for (const models::GemmSpec& spec : block.products(shape)) {
    const double M = as_double(spec.M), N = as_double(spec.N), K = as_double(spec.K), flops = 2 * M * N * K;
    const double bytes = M * K * static_cast<double>(core::dtype_size(spec.a)) +
                         K * N * static_cast<double>(core::dtype_size(spec.b)) +
                         M * N * static_cast<double>(core::dtype_size(spec.c));
    products += std::max(rates.gemm_seconds(std::min({M, N, K}), flops), bytes / memory_bytes_per_second);
    product_flops += flops;
    // Of products forwards and for the gradient of the input: what goes in and what comes out are activations.
    if (!spec.trans_a) activations += M * K + M * N;
  }
  const double rows = as_double(shape.rows()), size = static_cast<double>(core::dtype_size(shape.type));
  const double stream = rows * as_double(block.output_width());  // elements that enter and leave the block
  const double pass =
      size * (product_flops > 0 ? activations / 2 + 2 * stream : 2 * stream) / rates.pass_bytes_per_second;
  const double attention = std::max(0.0, block.forward_flops(shape) - product_flops / 3);
  const double T = as_double(shape.T), peak = rates.peak_flops_per_second;
  const double attention_forward = attention / (peak * rates.attention_forward(T));
  const double attention_backward = 2.5 * attention / (peak * rates.attention_backward(T));
  // In training the last block makes its products, loss included, in its backward.
  if (last && shape.mode == models::Mode::train) {
    const double prepare = 2 * size * stream / rates.pass_bytes_per_second;
    return {prepare, products + attention_forward + attention_backward + 2 * pass};
  }
  return {products / 3 + attention_forward + pass, products * 2 / 3 + attention_backward + 2 * pass};
}

double access_bytes(const ProgramSet& set, const Op& op, std::optional<Use> use) {
  return counted_bytes(set, op, [&](const Access& access) { return !use || access.use == *use; });
}

HostSpread host_spread(Span span, const Layout& layout, int ranks_per_host) {
  const int hosts = (layout.dp + ranks_per_host - 1) / ranks_per_host;
  const int inner = layout.groups.inner;
  if (hosts == 1) return {layout.ranks(span), 1, layout.ranks(span), layout.ranks(span), 1};
  switch (span) {
    case Span::all:
      break;
    case Span::inner: {
      const bool aligned = inner <= ranks_per_host ? ranks_per_host % inner == 0 : inner % ranks_per_host == 0;
      const int spanned = (inner + ranks_per_host - 1) / ranks_per_host + (aligned ? 0 : 1);
      const int local = std::min((inner + spanned - 1) / spanned, ranks_per_host);
      return {inner, spanned, local, inner - (spanned - 1) * local, std::max(1, ranks_per_host / inner)};
    }
    case Span::outer: {
      const int local = std::max(1, ranks_per_host / inner);
      const int groups = layout.dp / inner, spanned = (groups + local - 1) / local;
      return {groups, spanned, local, groups - (spanned - 1) * local, std::min(inner, ranks_per_host)};
    }
  }
  return {layout.dp, hosts, ranks_per_host, layout.dp - (hosts - 1) * ranks_per_host, 1};
}

OpCost op_cost(const ProgramSet& set, const Op& op, const Layout& layout, const Cluster& cluster) {
  const double start = cluster.op_seconds;
  const bool on_host = op.lane < set.lanes.size() && set.lanes[op.lane].kind == LaneKind::host;
  const auto at_memory = [&](double bytes) {
    const double rate = on_host ? cluster.host_memory_bytes_per_second.value_or(cluster.memory_bytes_per_second)
                                : cluster.memory_bytes_per_second;
    return OpCost{start + bytes / rate, on_host ? Resource::host : Resource::compute};
  };
  switch (op.kind) {
    case OpKind::forward:
    case OpKind::recompute:
    case OpKind::backward:
    case OpKind::evaluate:
    case OpKind::decode:
      return {start + block_seconds(set, op, layout, cluster), Resource::compute};
    case OpKind::gather:
    case OpKind::gather_grad:
    case OpKind::gather_state:
    case OpKind::reduce_grad:
    case OpKind::share_control:
    case OpKind::share_sums:
      return collective_cost(set, op, layout, cluster);
    case OpKind::norm:
    case OpKind::sum:
      return at_memory(state_bytes(set, op, layout, optimizer::Extent::shard));
    case OpKind::fold:
    case OpKind::update:
      return at_memory(state_bytes(set, op, layout, layout.zero.states));
    case OpKind::fetch:
    case OpKind::evict:
    case OpKind::load_batch:
    case OpKind::snapshot:
    case OpKind::export_state:
      return transfer_cost(set, op, layout, cluster);
    case OpKind::init:
    case OpKind::load:
      return at_memory(access_bytes(set, op));
    case OpKind::begin:
    case OpKind::decide:
    case OpKind::decide_ahead:
    case OpKind::average:
      return {start, Resource::compute};
  }
  return {};
}

}  // namespace zrt::runtime

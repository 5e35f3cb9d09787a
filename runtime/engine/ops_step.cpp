#include <vector>

#include "runtime/engine/control_ops.h"
#include "runtime/engine/ops.h"

namespace zrt::runtime {
namespace {

using optimizer::Extent;

std::byte* own_shard(const OpCall& call, std::byte* full, const optimizer::Unit& unit, core::DType type) {
  return full + static_cast<size_t>(call.rank.layout->shard_of(call.rank.number) * unit.shard) * core::dtype_size(type);
}

// On two levels, the shard of group h's member m is number h × inner + m of the unit, and a member's partial buffer
// holds those of all groups one after the other.
struct Level {
  int64_t groups;  // shards in a partial buffer; 1 where a group has all shards
  int64_t inner;
};
Level level_of(const Layout& layout) {
  return {layout.shards() / layout.groups.inner, layout.groups.inner};
}

}  // namespace

// Gathers shards into whole units. With one buffer per unit (updated weights, whole gradients) the shard lies in it.
void run_gather(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const core::DType type = call.op.kind == OpKind::gather_state  ? layout.logical_type()
                           : call.op.kind == OpKind::gather_grad ? layout.grad
                                                                 : layout.compute;
  const size_t size = core::dtype_size(type);
  std::vector<comm::GatherRange> ranges;
  for (size_t i = 0; i < call.op.units.size(); ++i) {
    const optimizer::Unit& unit = call.unit(i);
    std::byte *part = call.at(Role::weight, i), *full = call.at(Role::full_state, i),
              *partial = call.at(Role::partial, i);
    if (!part && call.op.span != Span::inner) part = own_shard(call, full, unit, type);
    if (call.op.span == Span::all) {
      ranges.push_back({part, full, unit.shard});
    } else if (call.op.span == Span::outer) {
      ranges.push_back({part, partial, unit.shard});
    } else {
      const Level level = level_of(layout);
      if (!partial) partial = part ? part : own_shard(call, full, unit, type);
      for (int64_t group = 0; group < level.groups; ++group) {
        const auto at = static_cast<size_t>(group * unit.shard) * size;
        ranges.push_back({partial + at, full + at * static_cast<size_t>(level.inner), unit.shard});
      }
    }
  }
  call.comm().all_gather(ranges, type, call.op.name);
}

void run_reduce_grad(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const core::DType held = layout.reduces_in_place() ? layout.local_grad : layout.grad;
  core::DType from = layout.local_grad, to = held;
  std::vector<comm::ReduceRange> ranges;
  for (size_t i = 0; i < call.op.units.size(); ++i) {
    const optimizer::Unit& unit = call.unit(i);
    std::byte *local = call.at(Role::local_grad, i), *grad = call.at(Role::grad, i),
              *partial = call.at(Role::partial, i);
    if (call.op.span == Span::outer && !partial) {
      call.comm().all_reduce(grad, unit.shard, held, call.op.name);
      continue;
    }
    if (!local) local = grad;  // in place
    if (grad && layout.zero.grads == Extent::full) grad = own_shard(call, grad, unit, to);
    if (call.op.span == Span::outer) {
      ranges.push_back({partial, grad, unit.shard, call.op.accumulate[i] != 0});
    } else if (call.op.span == Span::inner && partial) {
      to = from;
      const Level level = level_of(layout);
      for (int64_t group = 0; group < level.groups; ++group) {
        const auto at = static_cast<size_t>(group * unit.shard) * core::dtype_size(from);
        ranges.push_back({local + at * static_cast<size_t>(level.inner), partial + at, unit.shard, false});
      }
    } else {
      ranges.push_back({local, grad, unit.shard, call.op.accumulate[i] != 0});
    }
  }
  if (!ranges.empty()) call.comm().reduce_scatter(ranges, from, to, call.op.name);
}

// Each rank adds up its own shard only, whatever it holds: the sum is exact, so the split does not show.
void run_norm(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const optimizer::Unit& unit = call.unit(0);
  std::byte* grad = call.at(Role::grad);
  if (layout.zero.grads == Extent::full) grad = own_shard(call, grad, unit, layout.grad);
  optimizer::add_squares(call.as<Control>(Role::control)->norm, unit.shard, grad, layout.grad);
}

void run_share_control(const OpCall& call) {
  auto* shares = call.as<ControlShare>(Role::shares);
  auto* own = shares + call.rank.number;
  make_share(call.as<Control>(Role::control), own);
  const comm::GatherRange range{own, shares, sizeof(ControlShare)};
  call.comm().all_gather({&range, 1}, core::DType::u8, call.op.name);
}

void run_average(const OpCall& call) {
  average(call.as<ControlShare>(Role::shares), call.rank.layout->dp, call.as<Control>(Role::control));
}

void run_decide(const OpCall& call) {
  decide(call.as<ControlShare>(Role::shares), decide_rules(call.rank), call.as<Control>(Role::control));
}

void run_decide_ahead(const OpCall& call) {
  auto* control = call.as<Control>(Role::control);
  decide_ahead(control, reinterpret_cast<Control*>(call.address(*call.find(Role::control, 1))));
}

}  // namespace zrt::runtime

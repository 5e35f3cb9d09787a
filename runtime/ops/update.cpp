#include <vector>

#include "runtime/ops/shard.h"
#include "runtime/ops/spec.h"
#include "runtime/ops/update_part.h"

namespace zrt::runtime {
namespace {

using optimizer::Extent;

uint64_t share_bytes(const OpCall& call) {
  return call.rank.layout->optimizer->share_bytes(call.unit(0), call.op.round);
}

std::byte* own_share(const OpCall& call) {
  const int holder = call.rank.layout->mesh.place(call.unit(0).holder_axes, call.rank.number);
  return call.at(Role::sums) + static_cast<uint64_t>(holder) * share_bytes(call);
}

// Each rank adds up its own shard only, whatever it holds: the sum is exact, so the split does not show.
void run_norm(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const optimizer::Unit& unit = call.unit(0);
  std::byte* grad = call.at(Role::grad);
  // Ranks that have the same shard leave it to the first of them.
  const Axes same = core::stage_axes.without(unit.holder_axes | unit.apart_axes());
  if (layout.mesh.place(same, call.rank.number) > 0) return;
  if (unit.held.grads == Extent::full) grad = own_shard(call, grad, unit, layout.grad);
  optimizer::add_squares(call.as<Control>(Role::control)->norm, unit.shard, grad, layout.grad);
}

// Each rank adds up its own shard, whatever it holds: sums are exact, so the split does not show.
void run_sum(const OpCall& call) {
  call.rank.layout->optimizer->sum(call.op.round, decision_of(call), *UpdatePart(call, Extent::shard), own_share(call));
}

void run_share_sums(const OpCall& call) {
  const comm::GatherRange range{own_share(call), call.at(Role::sums), static_cast<int64_t>(share_bytes(call))};
  call.comm().all_gather({&range, 1}, core::DType::u8, call.op.name);
}

void run_fold(const OpCall& call) {
  const UpdatePart part(call, call.unit(0).held.states);
  call.rank.layout->optimizer->fold(call.op.round, decision_of(call), *part, call.at(Role::sums),
                                    call.rank.layout->mesh.degree(call.unit(0).holder_axes));
}

void run_update(const OpCall& call) {
  call.rank.layout->optimizer->update(decision_of(call), *UpdatePart(call, call.unit(0).held.states));
}

core::DType type_of(Role role, const Layout& layout) {
  return role == Role::weight ? layout.compute : role == Role::grad ? layout.grad : core::DType::f32;
}

// Counts the part of each buffer that belongs to the elements the op works on, twice where it is read and written.
OpCost state_cost(const CostCall& call, Extent extent) {
  const Layout& layout = call.layout;
  const optimizer::Unit& unit = layout.units.units[call.op.units.front()];
  double bytes = 0;
  for (const Access& access : call.op.accesses) {
    if (access.role == Role::control) continue;  // small, and in a cache
    const Buffer& buffer = call.set.buffers[access.buffer];
    // A copy that was brought here may hold no more than the part.
    const bool whole =
        buffer.bytes > static_cast<uint64_t>(unit.shard) * core::dtype_size(type_of(access.role, layout));
    const Extent held = access.role == Role::weight ? unit.held.weights
                        : access.role == Role::grad ? unit.held.grads
                                                    : unit.held.states;
    const bool part = whole && extent == Extent::shard && held == Extent::full &&
                      (access.role == Role::weight || access.role == Role::grad || access.role == Role::master ||
                       access.role == Role::state);
    bytes += static_cast<double>(buffer.bytes) * (access.use == Use::update ? 2 : 1) / (part ? unit.shards() : 1);
  }
  return cost_at_memory(call, bytes);
}

OpCost shard_cost(const CostCall& call) {
  return state_cost(call, Extent::shard);
}

OpCost update_cost(const CostCall& call) {
  return state_cost(call, call.layout.units.units[call.op.units.front()].held.states);
}

}  // namespace

std::vector<OpSpec> update_ops() {
  const Operand decision{Role::control, Count::one, may_read}, grad{Role::grad, Count::each_unit, may_read};
  return {{.kind = OpKind::norm,
           .name = "norm",
           .phases = {"step"},
           .operands = {grad, {Role::control, Count::one, may_update}},
           .run = run_norm,
           .cost = shard_cost},
          {.kind = OpKind::sum,
           .name = "sum",
           .phases = {"step", "update"},
           .operands = {decision,
                        grad,
                        {Role::weight, Count::some_units, may_read},
                        {Role::master, Count::some_units, may_read},
                        {Role::state, Count::any, may_read},
                        {Role::work, Count::optional, may_read},
                        {Role::sums, Count::one, may_write}},
           .run = run_sum,
           .cost = shard_cost,
           .works = true,
           .site = Site::update},
          {.kind = OpKind::share_sums,
           .name = "share_sums",
           .phases = {"step", "update"},
           .operands = {{Role::sums, Count::one, may_update}},
           .run = run_share_sums,
           .volume = gathered_volume},
          {.kind = OpKind::fold,
           .name = "fold",
           .phases = {"step", "update"},
           .operands = {decision,
                        {Role::sums, Count::one, may_read},
                        {Role::state, Count::any, may_update},
                        {Role::work, Count::optional, may_write | may_update}},
           .run = run_fold,
           .cost = update_cost,
           .works = true,
           .site = Site::update},
          {.kind = OpKind::update,
           .name = "update",
           .phases = {"step", "update"},
           .operands = {decision,
                        {Role::grad, Count::optional, may_read},
                        {Role::proposal, Count::optional, may_read},
                        {Role::weight, Count::each_unit, may_write | may_update},
                        {Role::master, Count::some_units, may_update},
                        {Role::state, Count::any, may_update},
                        {Role::work, Count::optional, may_read}},
           .run = run_update,
           .cost = update_cost,
           .works = true,
           .site = Site::update}};
}

}  // namespace zrt::runtime

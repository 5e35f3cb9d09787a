#include <vector>

#include "core/device.h"
#include "runtime/ops/call.h"
#include "runtime/ops/control_ops.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

void run_begin(const OpCall& call) {
  begin_step(call.as<Control>(Role::control));
  const Access* loads = call.find(Role::loads);
  if (loads) core::fill_bytes(call.address(*loads), 0, call.bytes(*loads));
}

void run_share_control(const OpCall& call) {
  auto* shares = call.as<ControlShare>(Role::shares);
  auto* own = shares + call.rank.number;
  make_share(call.as<Control>(Role::control), own);
  const comm::GatherRange range{own, shares, sizeof(ControlShare)};
  call.comm().all_gather({&range, 1}, core::DType::u8, call.op.name);
}

void run_average(const OpCall& call) {
  average(call.as<ControlShare>(Role::shares), decide_rules(call.rank), call.as<Control>(Role::control));
}

void run_decide(const OpCall& call) {
  decide(call.as<ControlShare>(Role::shares), decide_rules(call.rank), call.as<Control>(Role::control));
}

void run_decide_ahead(const OpCall& call) {
  auto* control = call.as<Control>(Role::control);
  decide_ahead(control, decide_rules(call.rank),
               reinterpret_cast<Control*>(call.address(*call.find(Role::control, 1))));
}

OpSpec control_row(OpKind kind, std::string_view name, std::vector<std::string_view> phases,
                   std::vector<Operand> operands, void (*run)(const OpCall&)) {
  return {.kind = kind,
          .name = name,
          .phases = std::move(phases),
          .operands = std::move(operands),
          .run = run,
          .cost = no_cost};
}

}  // namespace

std::vector<OpSpec> control_ops() {
  const Operand change{Role::control, Count::one, may_update}, shares{Role::shares, Count::one, may_read};
  std::vector<OpSpec> rows{
      control_row(OpKind::begin, "begin", {"step", "eval"}, {change, {Role::loads, Count::optional, may_write}},
                  run_begin),
      control_row(OpKind::share_control, "share_control", {"step", "eval"},
                  {{Role::control, Count::one, may_read}, {Role::shares, Count::one, may_write}}, run_share_control),
      control_row(OpKind::average, "average", {"eval"}, {shares, change}, run_average),
      control_row(OpKind::decide, "decide", {"step"}, {shares, change}, run_decide),
      control_row(OpKind::decide_ahead, "decide_ahead", {"step", "update"},
                  {{Role::control, Count::two, may_read | may_update | may_write}}, run_decide_ahead)};
  rows[1].cost = nullptr, rows[1].volume = gathered_volume;
  return rows;
}

}  // namespace zrt::runtime

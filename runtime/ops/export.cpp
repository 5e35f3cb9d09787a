#include <vector>

#include "runtime/ops/call.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

// Each rank copies what it saves (Layout::piece), wherever it holds more. States that are not sharded are copied whole.
void run_snapshot(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const optimizer::Unit& unit = call.unit(0);
  const auto kinds = layout.optimizer->states(unit);
  for (size_t k = 0; const Access* target = call.find(Role::snapshot, k); ++k) {
    const core::Form form = k == 0 ? layout.logical_form() : kinds[k - 1].form;
    const std::byte* source = call.address(*call.find(Role::full_state, k));
    const int64_t skip = layout.piece_offset(unit, call.rank.data, k);
    core::copy_bytes(call.address(*target), source + core::form_bytes(form, skip), call.bytes(*target));
  }
}

void run_export(const OpCall& call) {
  if (!call.rank.export_unit) return;
  const optimizer::Unit& unit = call.unit(0);
  const core::Form form = call.rank.layout->logical_form();
  if (core::place().device == core::DeviceKind::cpu && form == core::Form::f32) {
    call.rank.export_unit(unit, call.as<float>(Role::full_state));
    return;
  }
  std::vector<std::byte> kept(core::form_bytes(form, unit.elements));
  core::read_bytes(kept.data(), call.at(Role::full_state), kept.size(), core::place().device);
  std::vector<float> weights(static_cast<size_t>(unit.elements));
  core::read_form(form, kept.data(), 0, unit.elements, weights.data());
  call.rank.export_unit(unit, weights.data());
}

OpCost export_cost(const CostCall& call) {
  return link_cost(access_bytes(call.set, call.op), Resource::link_down, call.cluster);
}

OpCost snapshot_cost(const CostCall& call) {
  return link_cost(access_bytes(call.set, call.op, Use::write), Resource::link_down, call.cluster);
}

core::DType logical_type(const Layout& layout) {
  return layout.logical_type();
}

}  // namespace

std::vector<OpSpec> export_ops() {
  return {{.kind = OpKind::export_state,
           .name = "export_state",
           .phases = {"export"},
           .operands = {{Role::full_state, Count::each_unit, may_read}},
           .run = run_export,
           .cost = export_cost,
           .works = true,
           .needs_host = true,
           .site = Site::home,
           .type = logical_type},
          {.kind = OpKind::snapshot,
           .name = "snapshot",
           .phases = {"save"},
           .operands = {{Role::full_state, Count::any, may_read}, {Role::snapshot, Count::any, may_write}},
           .run = run_snapshot,
           .cost = snapshot_cost,
           .works = true,
           .site = Site::home}};
}

}  // namespace zrt::runtime

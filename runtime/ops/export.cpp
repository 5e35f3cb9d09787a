#include <algorithm>
#include <vector>

#include "runtime/ops/call.h"
#include "runtime/ops/spec.h"
#include "runtime/program/export_piece.h"

namespace zrt::runtime {
namespace {

// Each rank copies what it saves, wherever it holds more. States that are not sharded are copied whole.
void run_snapshot(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const optimizer::Unit& unit = call.unit(0);
  const auto kinds = layout.optimizer->states(unit);
  const optimizer::SavedPart saved = saved_part(unit, layout.mesh, call.rank.number);
  for (size_t k = 0; const Access* target = call.find(Role::snapshot, k); ++k) {
    const core::Form form = k == 0 ? layout.saved_form(unit) : kinds[k - 1].form;
    const std::byte* source = call.address(*call.find(Role::full_state, k));
    const bool cut = k == 0 || kinds[k - 1].sharded;
    const int64_t skip = cut ? saved.offset(k == 0 ? layout.logical_extent(unit) : unit.held.states) : 0;
    core::copy_bytes(call.address(*target), source + core::form_bytes(form, skip), call.bytes(*target));
  }
}

// The fp32 values of a unit, or of the parts that ranks have of it one behind the other.
std::vector<float> exported(const OpCall& call, Role role, int64_t elements) {
  const core::Form form = call.rank.layout->logical_form(call.unit(0));
  std::vector<std::byte> kept(core::form_bytes(form, elements));
  core::read_bytes(kept.data(), call.at(role), kept.size(), core::place().device);
  std::vector<float> values(static_cast<size_t>(elements));
  core::read_form(form, kept.data(), 0, elements, values.data());
  return values;
}

void run_export(const OpCall& call) {
  if (!call.rank.export_param) return;
  const optimizer::Unit& unit = call.unit(0);
  if (!call.find(Role::all_parts)) {
    const bool direct =
        core::place().device == core::DeviceKind::cpu && call.rank.layout->logical_form(unit) == core::Form::f32;
    std::vector<float> values;
    if (!direct) values = exported(call, Role::full_state, unit.elements);
    const float* weights = direct ? call.as<float>(Role::full_state) : values.data();
    for (const optimizer::UnitParam& place : unit.params) call.rank.export_param(unit, place, weights + place.offset);
    return;
  }
  const int slices = call.rank.layout->mesh.degree(unit.slice_axes());
  const auto at = static_cast<int>(call.op.microbatch.at(call.iteration));  // along Axis::expert
  const UnitPiece told = export_piece(*call.rank.layout, unit, call.op.round);
  const std::vector<float> parts = exported(call, Role::all_parts, told.count * slices);
  for (const optimizer::UnitParam& place : unit.params) {
    // The piece has these elements of the parameter's part.
    const int64_t begin = std::max<int64_t>(0, told.begin - place.offset);
    const int64_t end = std::min(place.param->elements(), told.begin + told.count - place.offset);
    if (begin >= end) continue;
    std::vector<float>& whole = (*call.rank.exported)[place.number_at(at)];
    whole.resize(static_cast<size_t>(place.param->whole_elements()));
    for (int slice = 0; slice < slices; ++slice) {
      const int64_t first = slice * told.count + place.offset - told.begin;  // below 0 where a piece before told some
      models::for_each_piece(*place.param, slice, begin, end, [&](const models::Piece& piece) {
        if (piece.whole < 0) return;
        std::copy_n(parts.data() + (first + piece.begin), piece.count, whole.data() + piece.whole);
      });
    }
    if (end < place.param->elements()) continue;
    const models::Param one = place.param->at(at);
    call.rank.export_param(unit, {&one, place.offset, place.number_at(at)}, whole.data());
    call.rank.exported->erase(place.number_at(at));
  }
}

OpCost export_cost(const CostCall& call) {
  return link_cost(access_bytes(call.set, call.op), Resource::link_down, call.cluster);
}

OpCost snapshot_cost(const CostCall& call) {
  return link_cost(access_bytes(call.set, call.op, Use::write), Resource::link_down, call.cluster);
}

}  // namespace

core::DType logical_type(const Layout& layout, const Op& op) {
  return layout.logical_type(layout.units.units[op.units.front()]);
}

std::vector<OpSpec> export_ops() {
  return {{.kind = OpKind::export_state,
           .name = "export_state",
           .phases = {"export"},
           .operands = {{Role::full_state, Count::optional, may_read}, {Role::all_parts, Count::optional, may_read}},
           .run = run_export,
           .cost = export_cost,
           .works = true,
           .needs_host = true,
           .site = Site::resident,
           .type = logical_type},
          {.kind = OpKind::snapshot,
           .name = "snapshot",
           .phases = {"save"},
           .operands = {{Role::full_state, Count::any, may_read}, {Role::snapshot, Count::any, may_write}},
           .run = run_snapshot,
           .cost = snapshot_cost,
           .works = true,
           .site = Site::resident}};
}

}  // namespace zrt::runtime

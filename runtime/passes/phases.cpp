// Programs that bring states in and out: init, load, export and save.
#include <fmt/format.h>

#include "optimizer/state.h"
#include "runtime/passes/collectives.h"
#include "runtime/program/export_piece.h"

namespace zrt::runtime {
namespace {

using core::Category;
using optimizer::Extent;

}  // namespace

Draft make_init(const Layout& layout, const StateBuffers& state, bool load) {
  Draft draft{load ? "load" : "init", {}};
  DraftSegment& segment = draft.segments.emplace_back();
  auto write = [](Op& op, BufferId buffer, Role role) {
    if (buffer != no_buffer) op.accesses.push_back({buffer, role, Use::write, {}});
  };
  Op control;
  control.kind = load ? OpKind::load : OpKind::init;
  control.name = "init control";
  write(control, state.control, Role::control);
  segment.ops.push_back(control);
  for (uint32_t u = 0; u < layout.units.units.size(); ++u) {
    Op op;
    op.kind = load ? OpKind::load : OpKind::init;
    op.name = fmt::format("{} {}", op_kind_name(op.kind), layout.units.units[u].name);
    op.units = {u};
    write(op, state.weight[u], Role::weight);
    write(op, state.master[u], Role::master);
    for (BufferId kind : state.states[u]) write(op, kind, Role::state);
    // The first updates read it, though they are skipped.
    if (layout.late_updates() && layout.units.units[u].trained) write(op, state.grad[u], Role::grad);
    segment.ops.push_back(std::move(op));
  }
  return draft;
}

Draft make_export(ProgramSet& set, const Layout& layout, const StateBuffers& state) {
  Draft draft{"export", {}};
  draft.segments.emplace_back();
  for (uint32_t u = 0; u < layout.units.units.size(); ++u) {
    const optimizer::Unit& unit = layout.units.units[u];
    if (unit.counted_elsewhere) continue;
    BufferId full = state.logical(u);
    if (layout.logical_extent(unit) == Extent::shard || unit.packed) {
      const BufferId part = full;
      full = set.add({"whole state of " + unit.name, Category::staging, Life::transient,
                      static_cast<uint64_t>(unit.elements) * core::dtype_size(layout.logical_type(unit))});
      Op gather;
      gather.kind = OpKind::gather_state;
      place_in(set, gather, unit.shard_axes);
      gather.name = "gather state " + unit.name;
      gather.units = {u};
      gather.accesses = {{part, Role::weight, Use::read, {}}, {full, Role::full_state, Use::write, {}}};
      if (unit.packed && unit.held.weights == Extent::shard && unit.shards() > 1) {
        const BufferId packed = set.add({"packed state of " + unit.name, Category::staging, Life::transient,
                                         core::form_bytes(*unit.packed, unit.elements)});
        gather.accesses.push_back({packed, Role::packed, Use::write, {}});
      }
      draft.segments.back().ops.push_back(std::move(gather));
    }
    // Ranks that have other experts tell of theirs in turns.
    const auto turns = static_cast<uint32_t>(layout.mesh.degree(unit.apart_axes()));
    if (turns > 1) draft.segments.push_back({{}, turns});
    DraftSegment& segment = draft.segments.back();
    Op op;
    op.kind = OpKind::export_state;
    op.name = "export " + unit.name;
    op.units = {u};
    op.accesses = {{full, Role::full_state, Use::read, {}}};
    if (const Axes parts = unit.part_axes(); parts != Axes()) {
      const auto elements = elements_of_piece(layout, unit) * layout.mesh.degree(unit.slice_axes());
      const BufferId all = set.add({"parts of all of " + unit.name, Category::staging, Life::transient,
                                    static_cast<uint64_t>(elements) * core::dtype_size(layout.logical_type(unit))});
      Op gather;
      gather.kind = OpKind::gather_parts;
      place_in(set, gather, parts);
      gather.name = "gather parts of " + unit.name;
      gather.units = {u};
      gather.accesses = {{full, Role::full_state, Use::read, {}}, {all, Role::all_parts, Use::write, {}}};
      if (turns > 1) gather.microbatch = op.microbatch = {0, 1};  // the turn, and so the place of the rank
      op.accesses = {{all, Role::all_parts, Use::read, {}}};
      for (uint32_t piece = 0; piece < export_pieces(layout, unit); ++piece) {
        gather.round = op.round = piece;
        segment.ops.push_back(gather);
        segment.ops.push_back(op);
      }
    } else {
      segment.ops.push_back(std::move(op));
    }
    if (turns > 1) draft.segments.emplace_back();
  }
  return draft;
}

Draft make_save(ProgramSet& set, const Layout& layout, StateBuffers& state) {
  Draft draft{"save", {}};
  DraftSegment& segment = draft.segments.emplace_back();
  state.snapshot.resize(layout.units.units.size());
  for (uint32_t u = 0; u < layout.units.units.size(); ++u) {
    const optimizer::Unit& unit = layout.units.units[u];
    if (unit.counted_elsewhere) continue;
    Op op;
    op.kind = OpKind::snapshot;
    op.lane = set.lane(LaneKind::to_host);
    op.name = "snapshot " + unit.name;
    op.units = {u};
    auto copy = [&](BufferId source, const std::string& kind, core::Form form, int64_t elements) {
      Buffer buffer{fmt::format("snapshot of {} of {}", kind, unit.name), Category::staging, Life::reserved,
                    core::form_bytes(form, elements)};
      buffer.tier = core::Tier::host;
      state.snapshot[u].push_back(set.add(std::move(buffer)));
      op.accesses.push_back({source, Role::full_state, Use::read, {}});
      op.accesses.push_back({state.snapshot[u].back(), Role::snapshot, Use::write, {}});
    };
    const int64_t piece = saved_part(unit, layout.mesh, 0).count;
    copy(state.logical(u), "weights", layout.saved_form(unit), piece);
    const auto kinds = layout.optimizer->states(unit);
    for (size_t k = 0; k < kinds.size(); ++k) {
      copy(state.states[u][k], kinds[k].kind, kinds[k].form, kinds[k].sharded ? piece : kinds[k].elements);
    }
    segment.ops.push_back(std::move(op));
  }
  return draft;
}

Draft make_refresh(ProgramSet& set, const Layout& layout, const StateBuffers& state) {
  Draft draft{"refresh", {}};
  std::vector<uint32_t> resident;
  Collectives collectives(set, layout);
  std::vector<Op>& ops = draft.segments.emplace_back().ops;
  const auto gather = [&](const std::vector<uint32_t>& units) {
    for (const auto& bucket : buckets(layout, units, layout.gather_bucket)) {
      collectives.gather(
          ops, gather_in_place(layout, OpKind::gather, "gather updated ", bucket, state.weight, layout.compute));
    }
  };
  for (uint32_t u = 0; u < layout.units.units.size(); ++u) {
    if (!layout.units.units[u].refreshes()) continue;
    if (layout.placement.tiers(u).weight == Tier::device) {
      resident.push_back(u);
    } else {
      gather({u});  // a bucket's weights are on the device together
    }
  }
  gather(resident);
  return draft;
}

}  // namespace zrt::runtime

#include "runtime/passes/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "optimizer/optimizer.h"
#include "runtime/passes/draft.h"
#include "runtime/passes/offload.h"
#include "runtime/verify/verifier.h"

namespace zrt::runtime {

Compiled compile(const Layout& layout, const std::vector<std::string>& phases, const Sabotage& sabotage, bool check) {
  const core::OnPlace here({layout.device, nullptr});  // blocks' sizes depend on it
  Compiled compiled;
  ProgramSet& set = compiled.set;
  set.lanes = {{LaneKind::compute, ""}, {LaneKind::to_device, ""}, {LaneKind::comm, "dp"}, {LaneKind::to_host, ""}};
  const bool moves = layout.placement.moves();
  if (layout.groups.inner > 1 || moves) {
    set.lanes.push_back({LaneKind::comm, "dp.inner"});
    set.lanes.push_back({LaneKind::comm, "dp.outer"});
  }
  if (moves) {
    set.lanes.push_back({LaneKind::io, ""});
    set.lanes.push_back({LaneKind::host, ""});
  }
  const bool training = std::find(phases.begin(), phases.end(), "step") != phases.end();
  StateBuffers& state = compiled.state = add_state(set, layout, training);
  Offload offload(set, layout, state);
  auto finish = [&](Draft& draft) {
    offload.rewrite(draft);
    if (layout.overlap || moves) prefetch(draft, set, layout);
    set.programs.push_back(add_waits(draft, set, layout));
  };
  for (const std::string& phase : phases) {
    Draft draft;
    if (phase == "init" || phase == "load") {
      draft = make_init(layout, state, phase == "load");
    } else if (phase == "save") {
      if (!training) throw core::ProgramError("the phase 'save' copies what training keeps; it needs the phase 'step'");
      draft = make_save(set, layout, state);
    } else if (phase == "export") {
      if (layout.has_master() && !training) {
        throw core::ProgramError(
            "the phase 'export' gives out fp32 master weights, which a set of programs in bf16 or fp16 has only beside "
            "the "
            "phase 'step'; add 'step', or use fp32");
      }
      draft = make_export(set, layout, state);
    } else {
      if (phase == "step") {
        draft = schedule_step(set, layout, state);
      } else if (phase == "eval") {
        draft = schedule_eval(set, layout, state);
      } else if (phase == "decode") {
        draft = schedule_decode(set, layout, state);
      } else {
        throw core::ProgramError(fmt::format("there is no phase '{}'", phase));
      }
      apply_zero(draft, set, layout, state);
    }
    finish(draft);
  }
  const auto& units = layout.units.units;
  if (training && std::any_of(units.begin(), units.end(), [&](const auto& unit) { return layout.refreshes(unit); })) {
    Draft draft = make_refresh(set, layout, state);
    finish(draft);
  }
  // What a copy that stayed from its making to its last use has never been sent home to takes no room.
  std::vector<uint8_t> used(set.buffers.size());
  for (const Program& program : set.programs) {
    for (const Op& op : program.ops) {
      for (const Access& access : op.accesses) used[access.buffer] = 1;
    }
  }
  for (BufferId b = 0; b < used.size(); ++b) {
    if (used[b] || !moves || set.buffers[b].life == Life::carried) continue;
    set.buffers[b].bytes = 0, set.buffers[b].slots = 1, set.buffers[b].tier = Tier::device;
  }
  assign_memory(set, sabotage);
  compiled.plan = make_memory_plan(set);
  const auto start = std::chrono::steady_clock::now();
  if (check) verify(set, layout);
  compiled.verify_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return compiled;
}

CommForecast forecast_comm(const Program& program, const Layout& layout) {
  CommForecast forecast;
  const auto optimizer = optimizer::make_optimizer(layout.optimizer);
  for_each_execution(program, ~0u, [&](OpId id, uint32_t) {
    const Op& op = program.ops[id];
    const auto others = static_cast<uint64_t>(layout.ranks(op.span) - 1);
    if (op.kind == OpKind::share_sums) {
      forecast.share_sums += optimizer->share_bytes(layout.units.units[op.units[0]], op.round) * others;
    }
    uint64_t* kind = op.kind == OpKind::gather        ? &forecast.gather
                     : op.kind == OpKind::reduce_grad ? &forecast.reduce_grad
                     : op.kind == OpKind::gather_grad ? &forecast.gather_grad
                                                      : nullptr;
    if (!kind) return;
    // Inside a group each member stands for its peers in all groups. Groups with equal shards all-reduce.
    const auto parts = static_cast<uint64_t>(op.span == Span::inner ? layout.groups.inner : layout.dp);
    const bool twice = layout.groups.replicated && op.span == Span::outer;
    for (uint32_t u : op.units) {
      const uint64_t elements =
          static_cast<uint64_t>(layout.units.units[u].elements) / parts * others * (twice ? 2 : 1);
      *kind += elements;
      if (op.span == Span::outer) forecast.between_groups += elements;
    }
  });
  return forecast;
}

}  // namespace zrt::runtime

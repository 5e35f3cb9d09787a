#include "runtime/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "optimizer/optimizer.h"
#include "runtime/passes/draft.h"
#include "runtime/verifier.h"

namespace zrt::runtime {

Compiled compile(const Layout& layout, const std::vector<std::string>& phases, const Sabotage& sabotage, bool check) {
  Compiled compiled;
  ProgramSet& set = compiled.set;
  set.lanes = {{LaneKind::compute, ""}, {LaneKind::to_device, ""}, {LaneKind::comm, "dp"}, {LaneKind::to_host, ""}};
  const bool training = std::find(phases.begin(), phases.end(), "step") != phases.end();
  StateBuffers& state = compiled.state = add_state(set, layout, training);
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
    set.programs.push_back(add_waits(draft, set, layout));
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
    if (op.kind == OpKind::share_sums) {
      const uint64_t bytes = optimizer->share_bytes(layout.units.units[op.units[0]], op.round);
      forecast.share_sums += bytes * static_cast<uint64_t>(layout.dp - 1);
    }
    uint64_t* kind = op.kind == OpKind::gather        ? &forecast.gather
                     : op.kind == OpKind::reduce_grad ? &forecast.reduce_grad
                     : op.kind == OpKind::gather_grad ? &forecast.gather_grad
                                                      : nullptr;
    if (!kind) return;
    for (uint32_t u : op.units) *kind += static_cast<uint64_t>(layout.units.units[u].shard * (layout.dp - 1));
  });
  return forecast;
}

}  // namespace zrt::runtime

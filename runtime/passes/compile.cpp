#include "runtime/passes/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "core/error.h"
#include "runtime/passes/pass.h"
#include "runtime/verify/verifier.h"

namespace zrt::runtime {

namespace {

void check_phases(const Compilation& c) {
  for (const std::string& phase : c.phases) {
    constexpr std::array known{"init", "load", "step", "eval", "decode", "export", "save"};
    if (std::find(known.begin(), known.end(), phase) == known.end()) {
      throw core::ProgramError(fmt::format("there is no phase '{}'", phase));
    }
    if (phase == "save" && !c.training()) {
      throw core::ProgramError("the phase 'save' copies what training keeps; it needs the phase 'step'");
    }
    const auto masters = [&](const optimizer::Unit& unit) { return c.layout.has_master(unit); };
    const auto& units = c.layout.units.units;
    if (phase == "export" && !c.training() && std::any_of(units.begin(), units.end(), masters)) {
      throw core::ProgramError(
          "the phase 'export' gives out fp32 master weights, which a set of programs in bf16 or fp16 has only beside "
          "the "
          "phase 'step'; add 'step', or use fp32");
    }
  }
}

}  // namespace

Compiled compile(const Layout& layout, const std::vector<std::string>& asked, const Sabotage& sabotage, bool check,
                 const AfterPass& after) {
  const core::OnPlace here({layout.device, nullptr});  // blocks' sizes depend on it
  Compilation c{layout, asked, sabotage, plan_blocks(layout), {}, {}};
  check_phases(c);
  // Others follow where an op needs them; these few have the same numbers in all programs.
  c.set.lanes = {{LaneKind::compute, ""}, {LaneKind::to_device, ""}, {LaneKind::comm, "dp"}, {LaneKind::to_host, ""}};
  c.set.groups =
      make_groups(layout.mesh, layout.units.cut.shard_axes, layout.stage.schedule.chunks, layout.stage.sharing);
  // Stages have the same lanes, though not all of them use each.
  for (const Group& group : c.set.groups) {
    if (layout.stage.pipelined()) c.set.lane(LaneKind::comm, group.name);
  }
  std::vector<std::pair<const PassSpec*, std::unique_ptr<Pass>>> made;
  for (const PassSpec& pass : passes()) {
    if (pass.applies(layout)) made.emplace_back(&pass, pass.make(c));
  }
  std::vector<std::string> phases = asked;
  const auto& units = layout.units.units;
  if (c.training() && layout.late_updates()) phases.push_back("update");
  if (c.training() && std::any_of(units.begin(), units.end(), [&](const auto& unit) { return unit.refreshes(); })) {
    phases.push_back("refresh");
  }
  for (const std::string& phase : phases) {
    Draft draft{phase, {}};
    for (const auto& [spec, pass] : made) {
      if (spec->finishes) continue;
      pass->rewrite(draft);
      if (after) after(spec->name, c.set, flatten(draft));
    }
    c.set.programs.push_back(flatten(draft));
  }
  for (const auto& [spec, pass] : made) {
    if (!spec->finishes) continue;
    pass->finish();
    for (size_t i = 0; after && i < c.set.programs.size(); ++i) after(spec->name, c.set, c.set.programs[i]);
  }
  Compiled compiled{layout, std::move(c.blocks), std::move(c.set), std::move(c.state), {}};
  compiled.plan = make_memory_plan(compiled.set);
  const auto start = std::chrono::steady_clock::now();
  if (check) verify(compiled.set, layout);
  compiled.verify_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return compiled;
}

}  // namespace zrt::runtime

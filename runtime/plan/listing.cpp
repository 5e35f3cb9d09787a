#include "runtime/plan/listing.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/passes/pass.h"
#include "runtime/plan/text.h"

namespace zrt::runtime {
namespace {

void check_pass(const std::string& name, const Layout& layout) {
  std::vector<std::string> names;
  for (const PassSpec& pass : passes()) {
    names.push_back(pass.name);
    if (pass.name != name) continue;
    if (pass.applies(layout)) return;
    throw core::ConfigError(fmt::format("the pass '{}' has nothing to do for this configuration", name));
  }
  throw core::ConfigError(
      fmt::format("there is no pass '{}'; in their order they are {}", name, fmt::join(names, ", ")));
}

}  // namespace

std::string program_listing(const Plan& plan, const std::string& after, const std::string& phase) {
  std::string text;
  for (const StagePlan& stage : plan.stages) {
    const Layout& layout = stage.compiled.layout;
    if (layout.stage.pipelined())
      text += fmt::format("stage {}, ranks {}–{}\n", layout.stage.index, stage.first, stage.last);
    const ProgramSet& finished = stage.compiled.set;
    if (!phase.empty() && !finished.has(phase)) {
      std::vector<std::string> names;
      for (const Program& program : finished.programs) names.push_back(program.phase);
      throw core::ConfigError(fmt::format("there is no program '{}'; this run has {}", phase, fmt::join(names, ", ")));
    }
    const auto add = [&](const ProgramSet& set, const Program& program) {
      if (phase.empty() || program.phase == phase) text += program_text(set, program);
    };
    if (after.empty()) {
      for (const Program& program : finished.programs) add(finished, program);
      text += buffers_text(finished, phase);
      continue;
    }
    check_pass(after, layout);
    std::vector<std::string> phases;
    for (const Program& program : finished.programs) {
      if (program.phase != "refresh" && program.phase != "update") phases.push_back(program.phase);
    }
    compile(layout, phases, {}, false, [&](const std::string& pass, const ProgramSet& set, const Program& program) {
      if (pass == after) add(set, program);
    });
  }
  return text;
}

}  // namespace zrt::runtime

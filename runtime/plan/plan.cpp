#include "runtime/plan/plan.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "runtime/plan/fit.h"

namespace zrt::runtime {
namespace {

std::vector<PhasePeak> phase_peaks(const ProgramSet& set) {
  constexpr auto device = static_cast<size_t>(core::Tier::device);
  std::vector<PhasePeak> peaks;
  for (const Program& program : set.programs) {
    PhasePeak peak{program.phase, "", 0};
    for (const LivePoint& point : live_bytes(set, program)) {
      const uint64_t bytes = total(point.tiers[device]);
      if (bytes <= peak.live_bytes) continue;
      peak.live_bytes = bytes;
      peak.op = program.ops[point.op].name;
    }
    peaks.push_back(std::move(peak));
  }
  return peaks;
}

}  // namespace

int64_t Plan::tokens_per_step() const {
  return layout->micro_batch * layout->sequence * layout->dp * int64_t{layout->microbatches};
}

Plan make_plan(const Config& config, Layout& layout, std::vector<std::string> phases,
               const std::optional<Cluster>& cluster) {
  core::set_threads(config.run.threads_per_rank);
  Plan plan;
  plan.layout = &layout;
  plan.cluster = cluster;
  const Cluster* known = cluster ? &*cluster : nullptr;
  plan.limits = memory_limits(config, known);
  // Data-parallel ranks all run the same programs.
  RankGroup& group = plan.groups.emplace_back();
  group.last = layout.dp - 1;
  const bool saves = std::find(phases.begin(), phases.end(), "save") != phases.end();
  FitRequest request{std::move(phases), plan.limits, memory_limits(config, nullptr), {}};
  request.holds_copies = [&](const Compiled& compiled) { return plan.limits.hold(peak_bytes(compiled.plan)); };
  Fitted fitted = fit(config, layout, std::move(request));
  group.compiled = std::move(fitted.compiled);
  if (saves) plan.saves = group.compiled.set.has("save") ? "background" : "foreground";
  group.phases = phase_peaks(group.compiled.set);
  const Program& step = group.compiled.set.program("step");
  group.comm = comm_bytes(group.compiled.set, step, layout);
  if (known) group.step = simulate(group.compiled.set, step, layout, *known);
  if (group.step && !std::isfinite(group.step->seconds)) {
    throw core::ConfigError(
        "a step on " + known->name +
        " would take longer than any number says; look for constants that are far too small or large");
  }
  plan.fits = plan.limits.hold(peak_bytes(group.compiled.plan));
  if (!plan.fits) plan.suggestions = suggest_fits(config, *layout.model, fitted.phases, plan.limits, known);
  return plan;
}

}  // namespace zrt::runtime

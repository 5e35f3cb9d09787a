#include "runtime/plan/plan.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "runtime/plan/fit.h"
#include "runtime/plan/gpu_rooms.h"
#include "runtime/plan/setup.h"

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

// Says what a rank of each configuration of a plan may use. A plan for GPUs without a cluster and a budget is one for
// this machine's, where it has enough of them: a run here has their free memory.
class PlanLimits {
 public:
  PlanLimits(const Config& config, const Cluster* cluster) : cluster_(cluster) {
    if (cluster != nullptr || config.run.device != core::DeviceKind::cuda) return;
    gpus_.emplace(config, ranks_of(config), std::nullopt);
    try {
      gpus_->limits(ranks_of(config));
    } catch (const core::ConfigError&) {
      gpus_.reset();
    }
  }
  Limits of(const Config& config) {
    Limits limits = memory_limits(config, cluster_);
    std::optional<Limit>& device = limits.of(core::Tier::device);
    if (gpus_ && !device) device = gpus_->limits(ranks_of(config)).of(core::Tier::device);
    return limits;
  }
  // The limits that a run knows, to which what is gathered keeps.
  Limits known_to_runs(const Config& config) { return gpus_ ? of(config) : memory_limits(config, nullptr); }

 private:
  static uint64_t ranks_of(const Config& config) { return static_cast<uint64_t>(config.mesh.world()); }

  const Cluster* cluster_;
  std::optional<GpuRooms> gpus_;
};

}  // namespace

int64_t Plan::tokens_per_step() const {
  const Layout& any = layout();
  return any.micro_batch * any.sequence * any.mesh.data() * int64_t{any.microbatches};
}

Plan make_plan(const Config& wanted, const models::Model& model, std::vector<std::string> phases,
               const std::optional<Cluster>& cluster) {
  core::set_threads(wanted.run.threads_per_rank);
  Plan plan;
  plan.parameters = model.parameters(), plan.active_parameters = model.active_parameters();
  plan.cluster = cluster;
  if (plan.cluster) {
    plan.cluster->fast_sums |= wanted.parallel.fast_sums;
    plan.cluster->nccl_inside_hosts |= wanted.ranks_in_reach == 1;
  }
  const Cluster* known = plan.cluster ? &*plan.cluster : nullptr;
  const Config config = on_cluster(wanted, known);
  if (known) known->rates(config.precision.compute);  // throws before anything is compiled
  PlanLimits limits_of(config, known);
  plan.limits = limits_of.of(config);
  const bool saves = std::find(phases.begin(), phases.end(), "save") != phases.end();
  FitRules rules;
  rules.request = [&](const Config& of) {
    const Limits limits = limits_of.of(of);
    FitRequest request{phases, limits, limits_of.known_to_runs(of), {}};
    request.holds_copies = [limits](const Compiled& compiled) { return limits.hold(peak_bytes(compiled.plan)); };
    return request;
  };
  rules.holds = [&](const Config& of, const std::vector<Compiled>& stages) {
    return limits_of.of(of).hold(peak_bytes(stages));
  };
  Fitted fitted = fit(config, make_layouts(config, model), rules.request(config));
  if (saves) plan.saves = fitted.stages.front().set.has("save") ? "background" : "foreground";
  plan.fits = rules.holds(config, fitted.stages);
  if (!plan.fits) plan.suggestions = suggest_fits(config, model, fitted.phases, plan.limits, known, rules);
  std::vector<Simulation> steps;
  if (known) steps = simulate_step(fitted.stages, *known);
  for (Compiled& compiled : fitted.stages) {
    const auto number = plan.stages.size();
    StagePlan& stage = plan.stages.emplace_back();
    stage.first = compiled.layout.mesh.first_of(compiled.layout.stage.index);
    stage.last = stage.first + compiled.layout.mesh.stage_ranks() - 1;
    stage.phases = phase_peaks(compiled.set);
    stage.comm = comm_bytes(compiled.set, compiled.set.program("step"), compiled.layout);
    if (known) stage.step = std::move(steps[number]);
    stage.compiled = std::move(compiled);
  }
  if (known && !std::isfinite(plan.seconds_per_step())) {
    throw core::ConfigError(
        "a step on " + known->name +
        " would take longer than any number says; look for constants that are far too small or large");
  }
  return plan;
}

}  // namespace zrt::runtime

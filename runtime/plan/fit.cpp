#include "runtime/plan/fit.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "runtime/cost/nominal_cluster.h"
#include "runtime/plan/distance.h"
#include "runtime/plan/policy.h"
#include "runtime/plan/simulator.h"
#include "runtime/verify/verifier.h"

namespace zrt::runtime {
namespace {

std::vector<std::string> without_copies(std::vector<std::string> phases) {
  std::erase(phases, "save");
  return phases;
}

double step_seconds(const Layout& layout, const std::vector<std::string>& phases, const Cluster& cluster) {
  const Compiled compiled = compile(layout, phases, {}, false);
  return simulate(compiled.set, compiled.set.program("step"), layout, cluster).seconds;
}

// Fills what a configuration leaves open (Layout::open_placement, open_recompute, MicrobatchOrder::choices). Where
// everything fits the device tier nothing changes. Without `times` only placements with nothing fetched ahead are
// tried, which need the least memory. Where nothing is enough, the layout is left with the least memory.
void settle_placement(const Config& config, Layout& layout, const std::vector<std::string>& phases,
                      const Limits& limits, bool times) {
  const bool trains = times && std::find(phases.begin(), phases.end(), "step") != phases.end();
  const bool open = (layout.open_placement || layout.open_recompute) &&
                    !limits.hold(peak_bytes(compile(layout, phases, {}, false).plan));
  const bool ordered = trains && layout.microbatches > 1;
  const auto orders = ordered ? layout.order->choices() : std::vector<const MicrobatchOrder*>{layout.order};
  if (!open && !(orders.size() > 1 && layout.placement.moves())) return;
  const Cluster cluster = machine_of(config);
  const FitProblem problem{config, phases, limits, cluster};
  std::vector<Layout> starts;
  for (const MicrobatchOrder* order : orders) starts.push_back(layout), starts.back().order = order;
  if (!times) starts.front().prefetch = 0;
  // Without anything ahead of its use, more can be resident on the device.
  if (times && open && layout.prefetch != 0) {
    for (size_t i = 0, n = starts.size(); i < n; ++i) starts.push_back(starts[i]), starts.back().prefetch = 0;
  }
  std::optional<double> best;
  Layout least = layout;
  const auto judge = [&](const Layout& candidate, bool own) {
    if (!problem.holds(candidate)) {
      if (!best && own) least = candidate;
      return;
    }
    const double seconds = trains ? step_seconds(candidate, phases, cluster) : 0;
    if (best && seconds >= *best) return;
    best = seconds;
    least = candidate;
  };
  const auto consider = [&](const Layout& start) {
    if (!open) return judge(start, true);
    const auto& policies = placement_policies();
    for (size_t p = 0; p < policies.size(); ++p) {
      for (const Layout& candidate : policies[p].propose(problem, start)) judge(candidate, p == 0);
    }
  };
  for (const Layout& start : starts) consider(start);
  // The copies of activations that move need memory of their own: where that is too much, all layers compute again, or
  // activations stay where they are.
  if (!best && open && layout.open_placement) {
    for (Layout start : starts) {
      start.open_recompute = false;
      start.open_activations = false;
      consider(start);
      if (!layout.open_recompute) continue;
      start.placement.recompute.assign(layout.model->blocks.size(), Recompute::full);
      consider(start);
    }
    least.open_recompute = layout.open_recompute, least.open_activations = true;
  }
  layout = least;
}

// As long as the device has room for it; without a limit that the run knows itself not longer than for a use.
void settle_gathered_for(Layout& layout, const std::vector<std::string>& phases, const Limits& limits,
                         const Limits& known) {
  const bool gathers = layout.zero.weights == optimizer::Extent::shard && layout.stage.pipelined();
  if (!layout.open_gathered_for || !gathers || !known.tiers[static_cast<size_t>(core::Tier::device)]) return;
  for (const GatheredFor longer : {GatheredFor::step, GatheredFor::run}) {
    Layout candidate = layout;
    candidate.gathered_for = longer;
    const TierBytes peaks = peak_bytes(compile(candidate, phases, {}, false).plan);
    if (!limits.hold(peaks) || !known.hold(peaks)) continue;
    layout = candidate;
    return;
  }
}

Fitted settle(const Config& config, std::vector<Layout> layouts, FitRequest request) {
  Fitted result{{}, std::move(request.phases)};
  for (Layout& layout : layouts) {
    const auto distance = layout.prefetch;
    settle_gathered_for(layout, without_copies(result.phases), request.limits, request.distance_limits);
    settle_placement(config, layout, without_copies(result.phases), request.limits, request.timed);
    if (!request.timed) layout.prefetch = distance;
  }
  const auto compiled = [&](const Layout& layout) {
    if (!request.timed) {
      Layout least = layout;
      least.prefetch = 0;
      Compiled smallest = compile(least, result.phases, {}, false);
      if (!request.limits.hold(peak_bytes(smallest.plan))) return smallest;
    }
    return compile_at_distance(config, layout, result.phases, request.distance_limits, request.check);
  };
  const auto compile_all = [&] {
    result.stages.clear();
    std::transform(layouts.begin(), layouts.end(), std::back_inserter(result.stages), compiled);
  };
  compile_all();
  // All stages save in the same way.
  const auto copies_fit = [&](const Compiled& stage) {
    return !stage.set.has("save") || !request.holds_copies || request.holds_copies(stage);
  };
  if (!std::all_of(result.stages.begin(), result.stages.end(), copies_fit)) {
    result.phases = without_copies(std::move(result.phases));
    compile_all();
  }
  if (request.check && result.stages.size() > 1) {
    std::vector<const ProgramSet*> sets;
    std::vector<int> firsts;
    for (const Compiled& stage : result.stages) {
      sets.push_back(&stage.set);
      firsts.push_back(stage.layout.mesh.first_of(stage.layout.stage.index));
    }
    verify_collectives(sets, firsts);
  }
  return result;
}

// Says whether lanes of all stages may run beside each other: they have the memory, and nothing moves to make room.
bool has_room(const Fitted& fitted, const FitRequest& request) {
  return std::all_of(fitted.stages.begin(), fitted.stages.end(), [&](const Compiled& stage) {
    const bool makes_room = stage.layout.open_placement && stage.layout.placement.moves();
    const TierBytes peaks = peak_bytes(stage.plan);
    return !makes_room && request.limits.hold(peaks) && request.distance_limits.hold(peaks);
  });
}

}  // namespace

Cluster machine_of(const Config& config) {
  return config.parallel.cluster.empty() ? nominal_cluster(config.run.device) : find_cluster(config.parallel.cluster);
}

Fitted fit(const Config& config, const std::vector<Layout>& layouts, const FitRequest& request) {
  if (layouts.front().open_overlap) {
    std::vector<Layout> beside = layouts;
    for (Layout& layout : beside) layout.overlap = true;
    Fitted fitted = settle(config, std::move(beside), request);
    if (has_room(fitted, request)) return fitted;
  }
  return settle(config, layouts, request);
}

}  // namespace zrt::runtime

#include "runtime/plan/fit.h"

#include <algorithm>
#include <optional>

#include "runtime/cost/nominal_cluster.h"
#include "runtime/plan/distance.h"
#include "runtime/plan/policy.h"
#include "runtime/plan/simulator.h"

namespace zrt::runtime {
namespace {

std::vector<std::string> without_copies(std::vector<std::string> phases) {
  std::erase(phases, "save");
  return phases;
}

Cluster machine(const Config& config) {
  return config.parallel.cluster.empty() ? nominal_cluster(config.run.device) : find_cluster(config.parallel.cluster);
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
  const Cluster cluster = machine(config);
  const FitProblem problem{config, phases, limits, cluster};
  std::vector<Layout> starts;
  for (const MicrobatchOrder* order : orders) starts.push_back(layout), starts.back().order = order;
  if (!times) starts.front().prefetch = 0;
  // Without anything ahead of its use there is room for more at home on the device.
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

}  // namespace

Fitted fit(const Config& config, Layout& layout, FitRequest request) {
  Fitted result{{}, std::move(request.phases)};
  const auto distance = layout.prefetch;
  settle_placement(config, layout, without_copies(result.phases), request.limits, request.timed);
  if (!request.timed) {
    layout.prefetch = distance;
    Layout least = layout;
    least.prefetch = 0;
    result.compiled = compile(least, result.phases, {}, false);
    if (!request.limits.hold(peak_bytes(result.compiled.plan))) return result;
  }
  const auto at_best_distance = [&] {
    return compile_at_distance(config, layout, result.phases, request.distance_limits, request.check);
  };
  result.compiled = at_best_distance();
  if (result.compiled.set.has("save") && request.holds_copies && !request.holds_copies(result.compiled)) {
    result.phases = without_copies(std::move(result.phases));
    result.compiled = at_best_distance();
  }
  return result;
}

}  // namespace zrt::runtime

#include "runtime/plan/fit.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "runtime/cost/nominal_cluster.h"
#include "runtime/plan/distance.h"
#include "runtime/plan/offload_candidates.h"
#include "runtime/plan/policy.h"
#include "runtime/plan/simulator.h"
#include "runtime/verify/verifier.h"

namespace zrt::runtime {
namespace {

std::vector<std::string> without_copies(std::vector<std::string> phases) {
  std::erase(phases, "save");
  return phases;
}

bool has(const std::vector<std::string>& phases, std::string_view phase) {
  return std::find(phases.begin(), phases.end(), phase) != phases.end();
}

double step_seconds(const Layout& layout, const std::vector<std::string>& phases, const Cluster& cluster) {
  const Compiled compiled = compile(layout, phases, {}, false);
  return simulate(compiled.set, compiled.set.program("step"), layout, cluster).seconds;
}

// A microbatch of a block that goes through it beside others is an op of its own: of more of them the placement is
// sought only where no other order fits.
constexpr size_t most_works = 4096;

// The orders that a search may choose among, each once: those that hold fewer microbatches between blocks come first
// behind the layout's own.
std::vector<Layout> with_orders(const Layout& layout) {
  std::vector<Layout> all{layout};
  for (const MicrobatchOrder* order : layout.order->choices()) {
    Layout other = layout;
    other.order = order;
    try {
      const auto equal = [&](const Layout& known) { return known.together() == other.together(); };
      if (std::none_of(all.begin(), all.end(), equal)) all.push_back(std::move(other));
    } catch (const core::ConfigError&) {
      // This model's blocks share parameters in a way that rules this order out.
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Layout& a, const Layout& b) {
    const auto large = [](const Layout& one) { return one.together() * one.model->blocks.size() > most_works; };
    return large(a) < large(b);
  });
  return all;
}

uint64_t missing_bytes(const Config& config, const Layout& layout, const Limits& limits) {
  if (!layout.open_placement) return 0;
  uint64_t room = 0;
  for (size_t t = 0; t < core::tier_count; ++t) {
    if (t == static_cast<size_t>(core::Tier::nvme) && config.memory.nvme_path.empty()) continue;
    if (!limits.tiers[t]) return 0;
    room += limits.tiers[t]->bytes;
  }
  const uint64_t needed = state_bytes(layout);
  return needed - std::min(needed, room);
}

// Says whether a budget asks for what a configuration leaves open.
bool asks(const Layout& layout, const std::vector<std::string>& phases, const Limits& limits) {
  if (!layout.open_placement && !layout.open_recompute) return false;
  const auto& device = limits.tiers[static_cast<size_t>(core::Tier::device)];
  const bool surely = device && has(phases, "step") && !layout.placement.moves() && state_bytes(layout) > device->bytes;
  return surely || !limits.hold(peak_bytes(compile(layout, phases, {}, false).plan));
}

// Fills what a configuration leaves open (Layout::open_placement, open_recompute, MicrobatchOrder::choices). Where
// everything fits the device tier nothing changes. Without `times` only placements with nothing fetched ahead are
// tried, which need the least memory. Where nothing is enough, the layout is left with the least memory.
void settle_placement(const Config& config, Layout& layout, const std::vector<std::string>& phases,
                      const Limits& limits, bool times) {
  const bool trains = times && has(phases, "step");
  const bool open = asks(layout, phases, limits);
  const bool ordered = has(phases, "step") && layout.microbatches > 1;
  std::vector<Layout> starts = ordered ? with_orders(layout) : std::vector{layout};
  if (!open && !(times && starts.size() > 1 && layout.placement.moves())) return;
  const Cluster cluster = machine_of(config);
  const FitProblem problem{config, phases, limits, cluster};
  if (!times) {
    std::erase_if(starts, [&](const Layout& start) { return start.together() > layout.together(); });
    for (Layout& start : starts) start.prefetch = 0;
  }
  // One placement says as well as all of them by how much states fit nowhere.
  const bool hopeless = open && has(phases, "step") && missing_bytes(config, layout, limits) > 0;
  if (hopeless) starts.erase(starts.begin() + 1, starts.end());
  // Without anything ahead of its use, more can be resident on the device.
  if (times && open && layout.prefetch != 0 && !hopeless) {
    for (size_t i = 0, n = starts.size(); i < n; ++i) starts.push_back(starts[i]), starts.back().prefetch = 0;
  }
  // To compute again is the cheapest for a layer by itself; for a step it may be to move more.
  if (times && open && layout.open_placement && layout.open_recompute && !hopeless) {
    for (size_t i = 0, n = starts.size(); i < n; ++i) starts.push_back(starts[i]), starts.back().open_recompute = false;
  }
  std::optional<double> best;
  Layout least = layout, least_start = layout;
  std::optional<TierBytes> least_peaks;  // where nothing fits
  const auto judge = [&](const Layout& candidate, const Layout& start, bool own) {
    const TierBytes peaks = problem.peaks(candidate);
    if (const double excess = limits.excess(peaks); excess > 0) {
      if (best || !own || (least_peaks && excess >= limits.excess(*least_peaks))) return;
      least = candidate, least_start = start, least_peaks = peaks;
      return;
    }
    const double seconds = trains ? step_seconds(candidate, phases, cluster) : 0;
    if (best && seconds >= *best) return;
    best = seconds;
    least = candidate;
  };
  const auto consider = [&](const Layout& start) {
    if (best && (!times || start.together() * start.model->blocks.size() > most_works)) return;
    if (!open) return judge(start, start, true);
    const auto& policies = placement_policies();
    for (size_t p = 0; p < policies.size(); ++p) {
      for (const Layout& candidate : policies[p].propose(problem, start)) judge(candidate, start, p == 0);
    }
  };
  for (const Layout& start : starts) consider(start);
  // The copies of activations that move need memory of their own: where that is too much, all layers compute again, or
  // activations stay where they are.
  if (!best && open && layout.open_placement && !hopeless) {
    for (Layout start : starts) {
      start.open_recompute = false;
      start.open_activations = false;
      consider(start);
      if (!layout.open_recompute) continue;
      start.placement.recompute.assign(layout.model->blocks.size(), Recompute::full);
      consider(start);
    }
  }
  // A device that is too small leaves the tiers behind it their room.
  constexpr auto device = static_cast<size_t>(core::Tier::device);
  if (!best && open && layout.open_placement && limits.tiers[device] && least_peaks &&
      (*least_peaks)[device] > limits.tiers[device]->bytes) {
    least = least_offload(problem, least_start);
  }
  least.open_recompute = layout.open_recompute, least.open_activations = layout.open_activations;
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

uint64_t missing_bytes(const Config& config, const std::vector<Layout>& layouts, const Limits& limits) {
  uint64_t most = 0;
  for (const Layout& layout : layouts) most = std::max(most, missing_bytes(config, layout, limits));
  return most;
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

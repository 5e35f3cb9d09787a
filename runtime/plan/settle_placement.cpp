#include "runtime/plan/settle_placement.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "runtime/plan/fit.h"
#include "runtime/plan/offload_candidates.h"
#include "runtime/plan/policy.h"
#include "runtime/plan/simulator.h"

namespace zrt::runtime {
namespace {

bool trains_in(const std::vector<std::string>& phases) {
  return std::find(phases.begin(), phases.end(), "step") != phases.end();
}

double step_seconds(const Layout& layout, const std::vector<std::string>& phases, const Cluster& cluster) {
  const Compiled compiled = compile(layout, phases, {}, false);
  return simulate(compiled.set, compiled.set.program("step"), layout, cluster, Wanted::seconds).seconds;
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

// Says whether a budget asks for what a configuration leaves open.
bool asks(const Layout& layout, const std::vector<std::string>& phases, const Limits& limits) {
  if (!layout.open_placement && !layout.open_recompute) return false;
  const auto& device = limits.tiers[static_cast<size_t>(core::Tier::device)];
  const bool surely = device && trains_in(phases) && !layout.placement.moves() && state_bytes(layout) > device->bytes;
  return surely || !limits.hold(peak_bytes(compile(layout, phases, {}, false).plan));
}

}  // namespace

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

void settle_placement(const Config& config, Layout& layout, const std::vector<std::string>& phases,
                      const Limits& limits, bool times) {
  const bool trains = times && trains_in(phases);
  const bool open = asks(layout, phases, limits);
  const bool ordered = trains_in(phases) && layout.microbatches > 1;
  std::vector<Layout> starts = ordered ? with_orders(layout) : std::vector{layout};
  // Another order may gather less often and keep more: it is tried where what keeps it from doing so is known.
  const bool reorders = layout.placement.moves() || limits.tiers[static_cast<size_t>(core::Tier::device)];
  if (!open && !(times && starts.size() > 1 && reorders)) return;
  const Cluster cluster = machine_of(config);
  const FitProblem problem{config, phases, limits, cluster};
  if (!times) {
    std::erase_if(starts, [&](const Layout& start) { return start.together() > layout.together(); });
    for (Layout& start : starts) start.prefetch = 0;
  }
  // One placement says as well as all of them by how much states fit nowhere.
  const bool hopeless = open && trains_in(phases) && missing_bytes(config, layout, limits) > 0;
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
    const bool large = start.together() * start.model->blocks.size() > most_works;
    if (best && (!times || large)) return;
    if (!open && large && start.order != layout.order) return;
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

}  // namespace zrt::runtime

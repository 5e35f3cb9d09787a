#include "runtime/plan/lead.h"

#include <algorithm>
#include <optional>

#include "runtime/simulator.h"

namespace zrt::runtime {
namespace {

using Lead = std::optional<int64_t>;  // as Layout::prefetch

int64_t largest_block(const Layout& layout) {
  int64_t most = 0;
  for (const auto& units : layout.units.blocks) {
    int64_t elements = 0;
    for (uint32_t u : units) {
      const optimizer::Unit& unit = layout.units.units[u];
      if (layout.weights(unit) == optimizer::Extent::shard) elements += unit.elements;
    }
    most = std::max(most, elements);
  }
  return most;
}

// From the longest to the shortest.
std::vector<Lead> leads(const Layout& layout, bool cluster) {
  std::vector<Lead> all;
  if (layout.prefetch) {
    for (int64_t lead = *layout.prefetch; lead > 0; lead /= 2) all.push_back(lead);
  } else {
    if (cluster) {
      for (int64_t blocks : {8, 4, 2}) all.push_back(blocks * largest_block(layout));
    }
    all.push_back(std::nullopt);
  }
  all.push_back(0);
  return all;
}

}  // namespace

Compiled compile_with_lead(const Config& config, const Layout& layout, const std::vector<std::string>& phases,
                           const Limits& limits, bool check) {
  const bool gathers = layout.overlap && layout.zero.weights == optimizer::Extent::shard &&
                       std::find(phases.begin(), phases.end(), "step") != phases.end();
  if (!gathers) return compile(layout, phases, {}, check);
  std::optional<Cluster> cluster;
  if (!config.parallel.cluster.empty()) cluster = find_cluster(config.parallel.cluster);
  const std::vector<Lead> all = leads(layout, cluster.has_value());
  Layout chosen = layout;
  chosen.prefetch = 0;  // where nothing fits, a refusal speaks of the smallest
  double best = 0;
  for (const Lead& lead : all) {
    Layout candidate = layout;
    candidate.prefetch = lead;
    Compiled compiled = compile(candidate, phases, {}, false);
    if (!limits.hold(peak_bytes(compiled.plan))) continue;
    if (!cluster) {
      if (!check) return compiled;
      chosen = candidate;
      break;
    }
    const double seconds = simulate(compiled.set, compiled.set.program("step"), layout, *cluster).seconds;
    if (best > 0 && seconds > best * 1.005) continue;
    best = best > 0 ? std::min(best, seconds) : seconds;
    chosen = candidate;
  }
  return compile(chosen, phases, {}, check);
}

}  // namespace zrt::runtime

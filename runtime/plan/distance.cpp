#include "runtime/plan/distance.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "runtime/plan/simulator.h"
#include "runtime/verify/verifier.h"

namespace zrt::runtime {
namespace {

using Distance = std::optional<int64_t>;  // as Layout::prefetch

int64_t largest_block(const Layout& layout) {
  int64_t most = 0;
  for (const auto& units : layout.units.blocks) {
    int64_t elements = 0;
    for (uint32_t u : units) {
      const optimizer::Unit& unit = layout.units.units[u];
      if (layout.gathers(unit)) elements += unit.elements;
    }
    most = std::max(most, elements);
  }
  return most;
}

// Lists distances from the longest to the shortest.
std::vector<Distance> distances(const Layout& layout, bool cluster) {
  std::vector<Distance> all;
  if (layout.prefetch) {
    for (int64_t d = *layout.prefetch; d > 0; d /= 2) all.push_back(d);
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

Compiled compile_at_distance(const Config& config, const Layout& layout, const std::vector<std::string>& phases,
                             const Limits& limits, bool check) {
  const bool sharded = layout.overlap && layout.zero.weights == optimizer::Extent::shard;
  const bool gathers =
      (sharded || layout.placement.moves()) && std::find(phases.begin(), phases.end(), "step") != phases.end();
  std::optional<Cluster> cluster;
  if (gathers && !config.parallel.cluster.empty()) cluster = find_cluster(config.parallel.cluster);
  if (cluster) cluster->fast_sums |= config.parallel.fast_sums;
  Compiled chosen;
  std::optional<double> best;
  const std::vector<Distance> all =
      gathers ? distances(layout, cluster.has_value()) : std::vector<Distance>{layout.prefetch};
  for (size_t i = 0; i < all.size(); ++i) {
    Layout candidate = layout;
    candidate.prefetch = all[i];
    Compiled compiled = compile(candidate, phases, {}, false);
    const bool last = i + 1 == all.size();
    // A refusal speaks of the smallest where nothing fits.
    if (!limits.hold(peak_bytes(compiled.plan)) && !(last && chosen.set.programs.empty())) continue;
    if (cluster) {
      const double seconds =
          simulate(compiled.set, compiled.set.program("step"), layout, *cluster, Wanted::seconds).seconds;
      if (best && seconds > *best * 1.005) continue;
      best = best ? std::min(*best, seconds) : seconds;
    }
    chosen = std::move(compiled);
    if (!cluster) break;
  }
  if (check) verify_stage(chosen);
  return chosen;
}

void verify_stage(Compiled& stage) {
  const auto start = std::chrono::steady_clock::now();
  verify(stage.set, stage.layout);
  stage.verify_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace zrt::runtime

#include "runtime/plan/fit.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "runtime/cost/nominal_cluster.h"
#include "runtime/plan/distance.h"
#include "runtime/plan/kept_outputs.h"
#include "runtime/plan/settle_placement.h"
#include "runtime/plan/simulator.h"
#include "runtime/plan/stage_runs.h"
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

// Steps of more forwards of blocks, of all stages, are settled stage by stage alone.
constexpr size_t most_compared = 1024;

// Keeps weights gathered as long as the device has room for them; without a limit that the run knows itself not longer
// than for a use.
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

void verify_together(const Fitted& fitted) {
  if (fitted.stages.size() == 1) return;
  std::vector<const ProgramSet*> sets;
  std::vector<int> firsts;
  for (const Compiled& stage : fitted.stages) {
    sets.push_back(&stage.set);
    firsts.push_back(stage.layout.mesh.first_of(stage.layout.stage.index));
  }
  verify_collectives(sets, firsts);
}

Fitted settle(const Config& config, std::vector<Layout> layouts, FitRequest request) {
  Fitted result{{}, std::move(request.phases)};
  const std::vector<std::string> trained = without_copies(result.phases);
  const auto settle_one = [&](Layout& layout) {
    const auto distance = layout.prefetch;
    settle_gathered_for(layout, trained, request.limits, request.distance_limits);
    settle_placement(config, layout, trained, request.limits, request.timed);
    if (!request.timed) layout.prefetch = distance;
  };
  const auto holds = [&](const Layout& layout) {
    Layout searched = layout;
    if (!request.timed) searched.prefetch = 0;
    return request.limits.hold(peak_bytes(compile(searched, trained, {}, false).plan));
  };
  if (layouts.front().open_placement || layouts.front().open_recompute) {
    settle_stages(layouts, {settle_one, holds});
  } else {
    for (Layout& layout : layouts) settle_one(layout);
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
  if (request.check) verify_together(result);
  return result;
}

bool holds(const TierBytes& peaks, const FitRequest& request) {
  return request.limits.hold(peaks) && request.distance_limits.hold(peaks);
}

bool holds(const Fitted& fitted, const FitRequest& request) {
  return std::all_of(fitted.stages.begin(), fitted.stages.end(),
                     [&](const Compiled& stage) { return holds(peak_bytes(stage.plan), request); });
}

// A stage that leaves room, or all of them, may still compute less again.
Fitted with_outputs_kept(Fitted fitted, const FitRequest& request) {
  if (!request.timed) return fitted;
  bool changed = false;
  for (Compiled& stage : fitted.stages) {
    const bool more = keep_outputs(stage, fitted.phases, request.limits,
                                   [&](const TierBytes& peaks) { return holds(peaks, request); });
    if (more && request.check) verify_stage(stage);
    changed = changed || more;
  }
  if (changed && request.check) verify_together(fitted);
  return fitted;
}

// Settings that a user might choose by hand for all stages alike, of what the layouts leave open.
std::vector<std::vector<Layout>> by_hand(const std::vector<Layout>& layouts) {
  std::vector<std::vector<Layout>> all;
  const auto add = [&](const auto& change) {
    std::vector<Layout>& changed = all.emplace_back(layouts);
    for (Layout& layout : changed) change(layout);
  };
  if (layouts.front().open_placement) add([](Layout& layout) { layout.open_placement = false; });
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (!layouts.front().open_recompute) break;
    add([&](Layout& layout) {
      layout.open_recompute = false;
      layout.placement.recompute.assign(layout.model->blocks.size(), recompute);
    });
  }
  return all;
}

// Stages are settled each for itself, layer by layer, and a step is all of them: where one of them had to make room,
// the outcome competes with what is simple. Long steps, whose programs take long to make, are left as they were
// settled.
Fitted settle_together(const Config& config, const std::vector<Layout>& layouts, const FitRequest& request) {
  Fitted best = settle(config, layouts, request);
  size_t works = 0;
  for (const Layout& layout : layouts) works += layout.microbatches * layout.model->blocks.size();
  bool made_room = false;
  for (size_t s = 0; s < layouts.size(); ++s) {
    made_room = made_room || !(best.stages[s].layout.placement == layouts[s].placement);
  }
  if (!request.timed || !has(request.phases, "step") || works > most_compared || !made_room) return best;
  const Cluster machine = machine_of(config);
  const auto seconds = [&](const Fitted& fitted) {
    return simulate_step(fitted.stages, machine, Wanted::seconds).front().seconds;
  };
  std::optional<double> least;
  if (holds(best, request)) least = seconds(best);
  const std::vector<Layout>* chosen = nullptr;
  FitRequest unchecked = request;
  unchecked.check = false;
  const auto simple = by_hand(layouts);
  for (const std::vector<Layout>& candidate : simple) {
    const Fitted fitted = settle(config, candidate, unchecked);
    if (!holds(fitted, request) || (least && fitted.phases != best.phases)) continue;
    const double taken = seconds(fitted);
    if (!least || taken < *least) least = taken, chosen = &candidate;
  }
  if (chosen == nullptr) return best;
  best = settle(config, *chosen, request);
  for (size_t s = 0; s < layouts.size(); ++s) {
    best.stages[s].layout.open_placement = layouts[s].open_placement;
    best.stages[s].layout.open_recompute = layouts[s].open_recompute;
  }
  return best;
}

// Says whether lanes of all stages may run beside each other: they have the memory, and nothing moves to make room.
bool has_room(const Fitted& fitted, const FitRequest& request) {
  return holds(fitted, request) && std::none_of(fitted.stages.begin(), fitted.stages.end(), [](const Compiled& stage) {
           return stage.layout.open_placement && stage.layout.placement.moves();
         });
}

}  // namespace

Cluster machine_of(const Config& config) {
  Cluster cluster =
      config.parallel.cluster.empty() ? nominal_cluster(config.run.device) : find_cluster(config.parallel.cluster);
  cluster.fast_sums |= config.parallel.fast_sums;
  cluster.nccl_inside_hosts |= config.ranks_in_reach == 1;
  return cluster;
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
    Fitted fitted = settle_together(config, beside, request);
    if (has_room(fitted, request)) return with_outputs_kept(std::move(fitted), request);
  }
  return with_outputs_kept(settle_together(config, layouts, request), request);
}

}  // namespace zrt::runtime

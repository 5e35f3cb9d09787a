#include "runtime/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"
#include "runtime/plan/fit.h"
#include "runtime/plan/setup.h"
#include "runtime/plan/simulator.h"
#include "runtime/search/estimate.h"

namespace zrt::runtime::search {
namespace {

// Estimates of memory may be this much too high before a choice is not even compiled.
constexpr double doubt = 1.15;
// A choice that is estimated this much slower than the best that was found is not compiled.
constexpr double hopeless = 1.35;

// The search compiles so many variants of a mesh and stage: chunks, schedules, microbatches and recomputation.
constexpr int most_variants = 4;
// The search stops at this many that fit with states elsewhere, whose placements take long to find.
constexpr size_t most_placed = 8;
// The search tries this number of the fastest ways once more, with more memory and less to do.
constexpr size_t most_enlarged = 2;

struct Judged {
  TierBytes peaks{};
  bool fits = false;
  bool moves = false;  // states or activations leave the device
  double seconds = 0, busy = 0, comm = 0, io = 0;
};

// Plans a run. States and activations may leave the device with `offloads` alone.
Judged judge(const Config& wanted, const Cluster& cluster, bool offloads) {
  Config config = on_cluster(wanted, &cluster);
  config.memory.open_placement &= offloads;
  const models::Model model = config.model.make();
  // Limits decide about the order of microbatches, which a pipeline has no choice of, and take time to keep to.
  FitRequest request{training_phases(config, "init"), {}, {}, {}, true, false};
  if (offloads || config.mesh.pipeline() == 1) {
    request.limits = memory_limits(config, &cluster), request.distance_limits = memory_limits(config, nullptr);
  }
  const std::vector<Compiled> stages = fit(config, make_layouts(config, model), request).stages;
  Judged judged;
  judged.peaks = peak_bytes(stages);
  judged.fits = memory_limits(config, &cluster).hold(judged.peaks);
  judged.moves =
      std::any_of(stages.begin(), stages.end(), [](const Compiled& stage) { return stage.layout.placement.moves(); });
  if (!judged.fits) return judged;
  for (const Simulation& stage : simulate_step(stages, cluster)) {
    judged.seconds = std::max(judged.seconds, stage.seconds);
    if (stage.busy_seconds.front() <= judged.busy) continue;
    judged.busy = stage.busy_seconds.front();
    judged.comm = stage.exposed_comm_seconds, judged.io = stage.exposed_io_seconds;
  }
  return judged;
}

// Continues the line through two steps to one of more microbatches.
Judged continued(const Judged& first, int64_t from, const Judged& second, int64_t to, int64_t wanted) {
  const double turns = static_cast<double>(wanted - from) / static_cast<double>(to - from);
  const auto line = [&](double Judged::*field) { return first.*field + turns * (second.*field - first.*field); };
  Judged judged = second;
  judged.seconds = line(&Judged::seconds), judged.busy = line(&Judged::busy);
  judged.comm = std::max(0.0, line(&Judged::comm)), judged.io = std::max(0.0, line(&Judged::io));
  return judged;
}

// Judges a choice of a pipeline by steps of few microbatches where it has many; not where a placement is sought, which
// depends on them. Without a pipeline the order of microbatches depends on them, too, and all take little time.
Judged judge(const Task& task, const Choice& choice, const Cluster& cluster, bool offloads) {
  const int64_t microbatches = choice.microbatches(task), turn = std::max(2, choice.pipeline);
  const auto of = [&](int64_t count) {
    return judge(with_choice(task, choice, count * choice.micro * choice.data(task)), cluster, offloads);
  };
  if (offloads || choice.pipeline == 1 || microbatches <= 4 * turn) return of(microbatches);
  const Judged shorter = of(2 * turn);
  return shorter.fits ? continued(shorter, 2 * turn, of(3 * turn), 3 * turn, microbatches) : shorter;
}

struct Guess {
  Choice choice;
  Estimate estimate;
};

}  // namespace

Result search(const Task& task, const Cluster& cluster, size_t most, const Progress& progress) {
  if (task.config.pseudo_to_real) {
    throw core::ConfigError(
        "--search spreads layers that have parameters of their own, but pseudo_to_real lets layers share them. Leave "
        "that section out for the search.");
  }
  Result result;
  const std::vector<Choice> all = choices(task, cluster.ranks_per_host);
  const auto device = memory_limits(task.config, &cluster).of(core::Tier::device);
  Estimator estimator(task, cluster);
  std::vector<Guess> on_device, elsewhere;  // by what the device is estimated to hold
  for (size_t i = 0; i < all.size(); ++i) {
    progress("estimated", i, all.size());
    const std::optional<Estimate> estimate = estimator.of(all[i]);
    if (!estimate) continue;
    ++result.considered;
    const bool too_large = device && estimate->device_bytes > doubt * static_cast<double>(device->bytes);
    (too_large ? elsewhere : on_device).push_back({all[i], *estimate});
  }
  const auto add = [&](const Choice& choice, const Judged& judged) {
    result.found.push_back({choice, judged.seconds, judged.busy, judged.comm, judged.io, judged.peaks});
  };
  const auto sort_found = [&] {
    std::stable_sort(result.found.begin(), result.found.end(),
                     [](const Found& a, const Found& b) { return a.seconds < b.seconds; });
  };
  const auto compile_best = [&](std::vector<Guess>& guesses, bool offloads) {
    std::stable_sort(guesses.begin(), guesses.end(),
                     [](const Guess& a, const Guess& b) { return a.estimate.seconds < b.estimate.seconds; });
    double best = 0;
    size_t compiled = 0;
    std::map<std::array<int, 4>, int> variants;
    for (const Guess& guess : guesses) {
      const Choice& choice = guess.choice;
      int& compiled_of_mesh = variants[{choice.tensor, choice.pipeline, choice.expert, choice.stage}];
      if (compiled_of_mesh >= most_variants) continue;
      if (offloads && result.found.size() == most_placed) break;
      if (compiled == most || (best > 0 && guess.estimate.seconds > hopeless * best)) break;
      progress("compiled", compiled, std::min(most, guesses.size()));
      try {
        const Judged judged = judge(task, choice, cluster, offloads);
        ++compiled, ++compiled_of_mesh;
        if (!judged.fits) continue;
        if (best == 0 || judged.seconds < best) best = judged.seconds;
        result.offloads = result.offloads || (offloads && judged.moves);
        add(choice, judged);
      } catch (const core::ConfigError& error) {
        if (result.refused.empty()) result.refused = error.what();
      }
    }
    result.compiled += compiled;
  };
  compile_best(on_device, false);
  result.placed = result.found.empty() && task.config.memory.open_placement;
  if (result.placed) {
    on_device.insert(on_device.end(), elsewhere.begin(), elsewhere.end());
    compile_best(on_device, true);
  }

  sort_found();
  // The fastest ways are tried with more memory: rows that tensor-parallel ranks share cost messages, and outputs that
  // backward makes again cost computation.
  std::vector<Choice> larger;
  for (size_t i = 0; i < std::min(most_enlarged, result.found.size()); ++i) {
    const Choice& choice = result.found[i].choice;
    if (choice.tensor > 1 && choice.sequence && !task.fixed.contains("parallel.sequence")) {
      larger.push_back(choice);
      larger.back().sequence = false;
    }
    if (choice.recompute == "none" && !task.fixed.contains("memory.recompute")) {
      larger.push_back(choice);
      larger.back().recompute = "never";
    }
  }
  for (const Choice& choice : larger) {
    try {
      const Judged judged = judge(task, choice, cluster, result.placed);
      ++result.compiled;
      if (judged.fits) add(choice, judged);
    } catch (const core::ConfigError&) {
      // A model that cannot.
    }
  }
  sort_found();
  return result;
}

}  // namespace zrt::runtime::search

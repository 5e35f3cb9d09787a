#include "runtime/bench/offload.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/bench/ceiling.h"
#include "runtime/bench/offload_ways.h"
#include "runtime/engine/session_options.h"
#include "runtime/plan/limits.h"

namespace zrt::runtime {
namespace {

// Seconds of the counted steps of each round.
struct OffloadSeries {
  std::vector<double> seconds, exposed;
};

// One round of one way: set up, a step that is not counted, then the counted ones.
void run_round(const OffloadWay& way, int steps, bool counted, OffloadSeries& series) {
  uint32_t step = 0;
  Session session(way.stages, session_options(way.config),
                  SessionHooks{random_batches(way.stages.front().layout, step), {}});
  session.run("init", {});
  double seconds = 0, exposed = 0;
  for (int i = 0; i <= steps; ++i) {
    StepInputs inputs;
    inputs.seed = 1;
    inputs.rates.lr = 1e-4;
    inputs.step = step++;
    const double elapsed = time_ranks(1, 1, [&](int) { session.run("step", inputs); });
    if (i == 0) continue;
    seconds += elapsed / steps;
    exposed += session.executor(0).exposed_io_seconds() / steps;
  }
  if (!counted) return;
  series.seconds.push_back(seconds);
  series.exposed.push_back(exposed);
}

// The runs of all budgets, each once: placements that ignore the budget are the same run at all of them.
class OffloadMeasurement {
 public:
  OffloadMeasurement(const Config& config, const OffloadOptions& options, const Progress& progress)
      : config_(config), options_(options), progress_(progress), model_(config.model.make()) {}

  OffloadBench run() {
    find_fixed();
    find_points();
    measure();
    return std::move(bench_);
  }

 private:
  void find_fixed() {
    const bool nvme = !config_.memory.nvme_path.empty();
    bench_.placements = options_.placements;
    for (const std::string& name : options_.placements) {
      OffloadPlacement placement = offload_placement(name, config_.zero.stage, nvme);
      if (name == "auto") {
        fixed_.emplace_back();
        continue;
      }
      std::vector<size_t> ways;
      for (const auto& sets : placement.sets) ways.push_back(add(name, sets));
      fixed_.push_back(std::move(ways));
    }
    everything_ = compile_way(config_, model_, offload_placement("device", config_.zero.stage, nvme).sets[0]);
    if (config_.memory.host_budget_bytes || !nvme) return;
    uint64_t host = peak_bytes(everything_.stages)[static_cast<size_t>(core::Tier::host)];
    for (const OffloadRun& run : bench_.runs) host = std::max(host, run.host_bytes);
    if (host > 0) limits_.push_back(fmt::format("memory.host_budget_bytes={}", host));
  }

  void find_points() {
    bench_.all_bytes = peak_bytes(everything_.stages)[static_cast<size_t>(core::Tier::device)];
    progress_("looking for the least budget");
    bench_.least_bytes = least_device_bytes(config_, model_, limits_);
    std::vector<uint64_t> budgets = options_.budgets;
    if (budgets.empty()) budgets = budget_row(bench_.least_bytes, bench_.all_bytes, options_.count);
    for (const uint64_t budget : budgets) {
      OffloadPoint point;
      point.budget = budget;
      for (size_t p = 0; p < fixed_.size(); ++p) point.runs.push_back(find_run(p, budget));
      bench_.points.push_back(std::move(point));
    }
  }

  std::optional<size_t> find_run(size_t placement, uint64_t budget) {
    if (bench_.placements[placement] != "auto") {
      for (const size_t way : fixed_[placement]) {
        const OffloadRun& run = bench_.runs[way];
        const auto host = static_cast<uint64_t>(config_.memory.host_budget_bytes.value_or(INT64_MAX));
        if (run.device_bytes <= budget && run.host_bytes <= host) return way;
      }
      return std::nullopt;
    }
    std::vector<std::string> sets = offload_placement("auto", config_.zero.stage, false).sets[0];
    sets.insert(sets.end(), limits_.begin(), limits_.end());
    sets.push_back(fmt::format("memory.device_budget_bytes={}", budget));
    if (budget < bench_.least_bytes) return std::nullopt;
    return add("auto", sets);
  }

  size_t add(const std::string& placement, const std::vector<std::string>& sets) {
    progress_(fmt::format("compiling {}", fmt::join(sets, " ")));
    ways_.push_back(std::make_unique<OffloadWay>());
    OffloadWay& way = *ways_.back();
    way = compile_way(config_, model_, sets);
    bench_.runs.push_back(describe(way));
    bench_.runs.back().placement = placement;
    bench_.runs.back().sets = fmt::format("{}", fmt::join(sets, " "));
    return bench_.runs.size() - 1;
  }

  void measure() {
    std::vector<OffloadSeries> series(ways_.size());
    GemmCeilings ceilings(config_);
    for (int round = 0; round <= options_.rounds; ++round) {
      for (size_t w = 0; w < ways_.size(); ++w) {
        progress_(fmt::format("round {} of {}, {}", round, options_.rounds, bench_.runs[w].sets));
        // The first round only shows that all works.
        run_round(*ways_[w], round == 0 ? 1 : options_.steps, round > 0, series[w]);
      }
      progress_("measuring the GEMM ceiling");
      ceilings.turn();
    }
    bench_.tokens_per_step = config_.batch.train * model_.sequence;
    bench_.flops_per_step = model_.flops_per_token() * static_cast<double>(bench_.tokens_per_step);
    bench_.ceiling = ceilings.ceiling().flops_per_second;
    for (size_t w = 0; w < ways_.size(); ++w) {
      bench_.runs[w].step_seconds = spread(series[w].seconds);
      bench_.runs[w].exposed_io_seconds = spread(series[w].exposed);
    }
    for (OffloadPoint& point : bench_.points) {
      for (const auto& run : point.runs) {
        point.of_first.emplace_back();
        if (!run || !point.runs[0]) continue;
        std::vector<double> ratios;
        for (size_t i = 0; i < series[*run].seconds.size(); ++i) {
          ratios.push_back(series[*run].seconds[i] / series[*point.runs[0]].seconds[i]);
        }
        point.of_first.back() = spread(ratios);
      }
    }
  }

  const Config& config_;
  const OffloadOptions& options_;
  const Progress& progress_;
  const models::Model model_;
  OffloadWay everything_;
  std::vector<std::string> limits_;                // overrides of the automatic placement
  std::vector<std::vector<size_t>> fixed_;         // by placement: its runs, of which the first that fits counts
  std::vector<std::unique_ptr<OffloadWay>> ways_;  // by run
  OffloadBench bench_;
};

}  // namespace

std::vector<uint64_t> budget_row(uint64_t least, uint64_t all, int count) {
  if (count < 2 || all <= least) return {all};
  std::vector<uint64_t> row;
  row.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    row.push_back(least + (all - least) * static_cast<uint64_t>(i) / static_cast<uint64_t>(count - 1));
  }
  return row;
}

OffloadBench bench_offload(const Config& config, const OffloadOptions& options, const Progress& progress) {
  return OffloadMeasurement(config, options, progress).run();
}

}  // namespace zrt::runtime

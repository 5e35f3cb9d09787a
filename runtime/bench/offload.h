// Measures what a budget for the device tier costs: steps of one configuration at a row of budgets, with the placement
// that zrt settles for each, and with placements that take no budget into account, where they fit.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/bench/bench.h"
#include "runtime/engine/executor.h"
#include "runtime/plan/simulator.h"

namespace zrt::runtime {

// Names of placements and the overrides that make them, the first that fits first.
//  auto       what zrt settles for the budget
//  host       all states on the host (with nvme: on the NVMe tier)
//  deepspeed  DeepSpeed's keys, all or nothing: the optimizer's states with the gradients on the host (the optimizer's
//             on the NVMe tier); at stage 3, where that is not enough, the weights too
//  device     everything on the device
struct OffloadPlacement {
  std::string name;
  std::vector<std::vector<std::string>> sets;
};
std::vector<std::string> offload_placement_names();
OffloadPlacement offload_placement(const std::string& name, int stage, bool nvme);

struct OffloadOptions {
  std::vector<std::string> placements;  // of these names
  std::vector<uint64_t> budgets;        // bytes of the device tier; empty: `count` from the least that fits to all
  int count = 6;
  int rounds = 5;
  int steps = 2;  // counted steps of each run in a round, after one that is not
};
// `count` budgets from `least` to `all`, both included, at equal distances.
std::vector<uint64_t> budget_row(uint64_t least, uint64_t all, int count);

// One way to run the step, measured. Bytes and predictions are of one rank.
struct OffloadRun {
  std::string placement, sets;                                // of OffloadPlacement
  uint64_t device_bytes = 0, host_bytes = 0, nvme_bytes = 0;  // planned peaks
  Moved moved;                                                // by one step
  std::optional<Simulation> predicted;                        // where a cluster is configured
  double link_seconds = 0, disk_seconds = 0;                  // bytes ÷ bandwidth; 0 where that is not known
  Spread step_seconds, exposed_io_seconds;
};

struct OffloadPoint {
  uint64_t budget = 0;
  // By placement: index into OffloadBench::runs; none where it does not fit.
  std::vector<std::optional<size_t>> runs;
  std::vector<std::optional<Spread>> of_first;  // step time ÷ that of the first placement, round by round
};

struct OffloadBench {
  std::vector<std::string> placements;
  uint64_t least_bytes = 0, all_bytes = 0;  // of the device tier: the least that zrt settles on, and no offload
  std::vector<OffloadRun> runs;
  std::vector<OffloadPoint> points;
  int64_t tokens_per_step = 0;
  double flops_per_step = 0;  // of all ranks
  Spread ceiling;             // FLOP/s of the step's matrix products alone, all ranks running
  double compute_seconds() const { return flops_per_step / ceiling.median; }
};

// With memory.nvme_path the NVMe tier is one of the tiers, and memory.host_budget_bytes, if that is not given, what the
// fixed placements need of the host at most. All runs take turns in each round; each is set up anew, so that one is in
// memory at a time.
OffloadBench bench_offload(const Config& config, const OffloadOptions& options, const Progress& progress);

}  // namespace zrt::runtime

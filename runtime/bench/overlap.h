// Measures what communication costs a stage-3 step against its parts: the communication alone, the computation alone,
// and the computation alone beside the same traffic between idle processes, because a busy link costs processor time
// whoever uses it. All take turns in one run.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/bench/bench.h"
#include "runtime/bench/traffic.h"

namespace zrt::runtime {

// One way of running the step. Seconds are from a common start to the end of the last rank; processor seconds are of
// all processes of the run, without those that make traffic.
struct OverlapRow {
  Spread seconds, cpu_seconds, exposed_comm_seconds;
};

// The compute lane stood still before `op`, whose last wait was for `awaited`.
struct OverlapGap {
  std::string op, awaited;
  double seconds = 0;
};

struct OverlapBench {
  OverlapRow comm, compute, with_overlap, without_overlap;
  std::optional<OverlapRow> compute_beside_traffic;
  // Round by round. The steps' ratios are to compute_beside_traffic where it was measured, else to compute.
  Spread comm_of_compute, with_of_compute, without_of_compute;
  uint64_t step_bytes = 0;              // that a rank receives in a step
  Spread traffic_asked, traffic_moved;  // bytes per second into each idle process
  Spread traffic_cpu_seconds;           // of one of them, beside the computation
  std::vector<OverlapGap> gaps;         // of rank 0 in the last step with overlap, longest first
  uint64_t rank_bytes = 0;              // of the device arena, with overlap
};

// `config` is of stage 3. `traffic` is the pace file of `zrt bench traffic`, which runs meanwhile and is stopped at the
// end. Collective over processes; the first round is not counted.
OverlapBench bench_overlap(const Config& config, comm::Transport& transport, int rounds,
                           const std::optional<std::filesystem::path>& traffic, const Progress& progress);

}  // namespace zrt::runtime

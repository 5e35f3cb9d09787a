// One run of a program with the times of its ops, executed or simulated, and what its buffers hold over that time.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/engine/executor.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

struct TimedOp {
  OpId op = 0;
  uint32_t iteration = 0;
  double start_seconds = 0, end_seconds = 0;  // of one clock for all ops
  uint64_t received_bytes = 0;                // from other ranks
};

struct TimedRun {
  const Program* program = nullptr;
  uint32_t step = 0;         // from 0
  std::vector<TimedOp> ops;  // in program order
};

// The whole runs among the events of an executor, in order. A run of which an event is missing is left out.
std::vector<TimedRun> timed_runs(std::span<const TraceEvent> events);

// From `seconds` on a rank holds `live` bytes, by tier and category.
struct LiveBytes {
  double seconds = 0;
  std::array<core::CategoryBytes, core::tier_count> live{};
};

// Live bytes over a run at the times its ops took: a transient buffer lives from the start of the op that defines it to
// the end of the last op that uses it, by the rules of the memory plan; other buffers live always. One entry per moment
// at which something changes, in order; the first at the run's first op.
std::vector<LiveBytes> live_series(const ProgramSet& set, const TimedRun& run);

}  // namespace zrt::runtime

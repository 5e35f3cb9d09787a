// Timed runs as Chrome trace events, for Perfetto, chrome://tracing and `zrt report`: a process per rank, a thread per
// lane and one for the runs themselves, counters of live bytes per tier with a series per category.
#pragma once
#include <span>
#include <string>

#include "models/model.h"
#include "runtime/train/telemetry/timed_run.h"

namespace zrt::runtime {

// The events of one rank, one per line, separated by ",\n". Timestamps are µs from `origin_seconds` of the ops' clock.
// An op's args are its step (from 1), for ops of a block its name, for those of a microbatch its number (from 0), and
// `bytes`: what an op on a comm lane received from other ranks; for others what the buffers hold that it writes.
std::string chrome_events(const ProgramSet& set, const models::Model& model, int rank, std::span<const TimedRun> runs,
                          double origin_seconds);

// The whole file, from the events of all ranks.
std::string chrome_trace(std::span<const std::string> events);

}  // namespace zrt::runtime

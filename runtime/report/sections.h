// The parts of a report's page, as HTML; see draw/page.h.
#pragma once
#include <string>
#include <vector>

#include "runtime/report/run_data.h"
#include "runtime/report/trace_data.h"

namespace zrt::runtime::report {

using Parts = std::vector<std::string>;

// What was run and how it ended; then what is missing, damaged or strange.
Parts facts(const RunData& run);
// Over steps: loss, held-out loss, throughput, learning rate, gradient norm, loss scale, time and what of it is
// exposed.
Parts step_charts(const RunData& run);
// Planned and measured per rank and tier, by category.
Parts memory_part(const RunData& run);
// A traced step: lanes of every rank, memory over time. `planned_bytes`: of the device tier, 0 when unknown.
Parts timeline_part(const std::vector<TracedRank>& ranks, double planned_bytes);

}  // namespace zrt::runtime::report

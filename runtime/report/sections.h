// The parts of a report's page, as HTML; see draw/page.h.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/report/run_data.h"
#include "runtime/report/trace_data.h"

namespace zrt::runtime::report {

using Parts = std::vector<std::string>;

// Says what was run and how it ended; then what is missing, damaged or strange.
Parts facts(const RunData& run);
// Shows over steps: loss, held-out loss, throughput, learning rate, gradient norm, loss scale, time and what of it is
// exposed.
Parts step_charts(const RunData& run);
// Shows what came to each expert, by layer; empty for models without experts.
Parts experts_part(const RunData& run);
// Shows planned and measured memory per rank and tier, by category.
Parts memory_part(const RunData& run);
// A run's plan for a rank.
struct PlannedRank {
  int stage = 0;            // of the pipeline
  double device_bytes = 0;  // 0: unknown
};
// Shows a traced step: lanes of ranks, memory over time. `planned`: by rank. The first ranks of each stage of a
// pipeline come first.
Parts timeline_part(const std::vector<TracedRank>& ranks, const std::map<int, PlannedRank>& planned);

}  // namespace zrt::runtime::report

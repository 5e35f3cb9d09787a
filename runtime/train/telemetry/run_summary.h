// Collects what a session's programs tell of a run when it is over.
#pragma once
#include <vector>

#include "runtime/train/telemetry/metrics.h"

namespace zrt::runtime {

// Fills in hashes, bytes and times; `seconds`: of each step. Collective.
void measure_run(Session& session, const std::vector<double>& seconds, int64_t tokens_per_step, Summary& summary);

}  // namespace zrt::runtime

#include "runtime/train/telemetry/run_summary.h"

#include <algorithm>

#include "models/kernels/gemm.h"

namespace zrt::runtime {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace

void measure_run(Session& session, const std::vector<double>& seconds, int64_t tokens_per_step, Summary& summary) {
  summary.state_xxh3 = session.state_xxh3();
  summary.kernel_table_xxh3 = models::kernel_table_hash();
  if (!seconds.empty()) {
    summary.step_seconds = median(seconds);
    summary.tokens_per_second = static_cast<double>(tokens_per_step) / summary.step_seconds;
  }
  summary.comm = session.executor(0).comm_volume();
  summary.fast_sums = session.fast_sums();
  summary.moved = session.executor(0).moved_bytes();
  for (const Compiled& stage : session.stages()) {
    summary.verify_seconds += stage.verify_seconds;
    summary.packing_overhead = std::max(summary.packing_overhead, stage.plan.device().packing_overhead());
  }
}

}  // namespace zrt::runtime

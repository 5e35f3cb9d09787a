// A run writes these records of itself step by step: metrics.jsonl, evaluations.jsonl, expert_loads.jsonl, TensorBoard
// event files and CSV files.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/train/telemetry/metrics.h"
#include "runtime/train/telemetry/run_log.h"
#include "runtime/train/telemetry/scalar.h"

namespace zrt::runtime {

class RunRecords {
 public:
  // Files of the run in `out`; monitors write where the configuration says. A run that goes on keeps what is there up
  // to `step`, after `samples`. Loads of experts have a file where the model has some. Throws DataError.
  RunRecords(const Config& config, const std::filesystem::path& out, int64_t step, int64_t samples,
             bool experts = false);

  void step(const StepMetrics& metrics, int64_t samples);
  void evaluated(int64_t step, int64_t samples, const Evaluation& evaluation);
  double last_loss() const { return metrics_.last_loss(); }  // of the run that this one goes on with
  // Says what could not be written since the last call, and why; "" for nothing new. It ends no run.
  std::string new_error();

 private:
  void add(int64_t samples, const std::vector<Scalar>& scalars);
  const bool scaled_;  // the loss scale is worth a curve
  RunLog metrics_, evaluations_;
  std::optional<RunLog> loads_;
  std::vector<std::unique_ptr<ScalarSink>> sinks_;
  std::string error_;
};

}  // namespace zrt::runtime

#include "runtime/train/telemetry/records.h"

#include "core/held_folder.h"
#include "runtime/train/telemetry/csv_monitor.h"
#include "runtime/train/telemetry/event_file.h"

namespace zrt::runtime {
namespace {

constexpr const char* loads_name = "expert_loads.jsonl";

// The job's folder below output_path, which is the user's to choose. What lies in there others may have planted: no
// folder of job_name may be a link.
std::filesystem::path folder_of(const MonitorConfig& monitor) {
  std::filesystem::path folder = monitor.output_path;
  for (const auto& part : std::filesystem::path(monitor.job_name)) core::refuse_special(folder /= part);
  return folder;
}

}  // namespace

RunRecords::RunRecords(const Config& config, const std::filesystem::path& out, int64_t step, int64_t samples,
                       bool experts)
    : scaled_(config.precision.compute == core::DType::f16),
      metrics_(out / "metrics.jsonl", step),
      evaluations_(out / "evaluations.jsonl", step) {
  // A file that an earlier run left would tell of another model.
  if (!experts) std::filesystem::remove(out / loads_name);
  if (experts) loads_.emplace(out / loads_name, step);
  if (config.tensorboard.enabled) sinks_.push_back(std::make_unique<EventFile>(folder_of(config.tensorboard), samples));
  if (config.csv_monitor.enabled)
    sinks_.push_back(std::make_unique<CsvMonitor>(folder_of(config.csv_monitor), samples));
}

void RunRecords::step(const StepMetrics& m, int64_t samples) {
  metrics_.add(to_json(m));
  if (loads_ && !m.expert_loads.empty()) loads_->add(to_json_line(m.step, m.expert_loads));
  // The first three are DeepSpeed's; the others are named like them.
  std::vector<Scalar> scalars{{"Train/Samples/lr", m.lr}, {"Train/Samples/train_loss", m.loss}};
  if (scaled_) scalars.push_back({"Train/Samples/loss_scale", m.loss_scale});
  scalars.push_back({"Train/Samples/grad_norm", m.grad_norm});
  scalars.push_back({"Train/Samples/tokens_per_second", m.tokens_per_second()});
  scalars.push_back({"Train/Samples/exposed_comm_seconds", m.exposed_comm_seconds});
  if (m.router.layers > 0) {
    scalars.push_back({"Train/Samples/router_balance", m.router_balance()});
    scalars.push_back({"Train/Samples/dropped_choices", static_cast<double>(m.router.dropped)});
    scalars.push_back({"Train/Samples/expert_peak", m.router.peak});
  }
  add(samples, scalars);
}

void RunRecords::evaluated(int64_t step, int64_t samples, const Evaluation& evaluation) {
  evaluations_.add(to_json_line(step, evaluation));
  std::vector<Scalar> scalars{{"Train/Samples/eval_loss", evaluation.loss}};
  if (evaluation.bits_per_byte) scalars.push_back({"Train/Samples/eval_bits_per_byte", *evaluation.bits_per_byte});
  add(samples, scalars);
}

void RunRecords::add(int64_t samples, const std::vector<Scalar>& scalars) {
  for (const auto& sink : sinks_) sink->add(samples, scalars);
}

std::string RunRecords::new_error() {
  std::string error = metrics_.error().empty() ? evaluations_.error() : metrics_.error();
  if (error.empty() && loads_) error = loads_->error();
  for (const auto& sink : sinks_) {
    if (error.empty()) error = sink->error();
  }
  const bool is_new = error != error_;
  error_ = error;
  return is_new ? error : "";
}

}  // namespace zrt::runtime

// One life of a run: what train() does from the plan to the last file.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/folder_lock.h"
#include "core/held_folder.h"
#include "runtime/data/read_ahead.h"
#include "runtime/data/sampler.h"
#include "runtime/train/lives.h"
#include "runtime/train/numeric_guard.h"
#include "runtime/train/telemetry/records.h"
#include "runtime/train/telemetry/sample_log.h"
#include "runtime/train/telemetry/step_trace.h"
#include "runtime/train/trainer.h"

namespace zrt::runtime {

inline constexpr const char* delinked = "delinked";  // how a life ends that another one follows

// The folder of a run and, where rank 0 lives, the lock that keeps others out until all is written.
struct RunFolder {
  core::HeldFolder path;
  std::optional<core::FolderLock> lock;
};

// One life of a run, in the order of its members.
class Training {
 public:
  // `resolved`: of the whole run, for its folder.
  Training(const Config& config, const RunLife& life, const std::string& resolved, RunFolder& folder,
           const TrainHooks& hooks, comm::Transport& transport)
      : config_(config),
        life_(life),
        resolved_(resolved),
        hooks_(hooks),
        transport_(transport),
        layouts_(make_layouts(config, life.model)),
        out_(folder.path) {}

  // `so_far`: what the lives before have saved.
  TrainResult run(const checkpoint::Reader* resumed, const Summary& so_far = {});

 private:
  void start(const checkpoint::Reader* resumed);
  void start_trace();
  void step();
  int64_t counted_targets() const;  // of the step to come, on all ranks
  bool loads_due() const;           // of experts, by the step just taken
  bool after_step();                // saves and evaluations that are due; false: stop
  void save();
  void finish();
  TrainResult nothing_to_do();
  std::optional<Evaluation> evaluate_now(int64_t limit);  // nothing where it was cut short
  void read_batch(int rank, uint32_t microbatch, const data::SampleRows& to);
  // Says how full samples are, and warns of what they leave out.
  void tell_of(const data::SampleSource& source, const char* which) const {
    for (const std::string& text : source.fullness()) {
      if (hooks_.tell) hooks_.tell(which + text);
    }
    for (const std::string& text : source.left_out()) warn(which + text);
  }
  void beat();
  void warn(const std::string& text) const {
    if (hooks_.warn) hooks_.warn(text);
  }

  const Config& config_;
  const RunLife& life_;
  const std::string& resolved_;
  const TrainHooks& hooks_;
  comm::Transport& transport_;
  const models::Model& model_ = life_.model;
  const std::vector<Layout> layouts_;  // of the stages, before the fit
  const data::BatchShape batch_{config_.batch.micro, config_.mesh.data(), config_.batch.accumulation};
  core::HeldFolder& out_;
  std::shared_ptr<const data::SampleSource> source_;
  std::unique_ptr<data::ReadAhead> ahead_;  // of it
  std::optional<EvalData> validation_;
  checkpoint::Json data_;       // data_json()
  double last_loss_ = NAN;      // of a step with a token that counts
  checkpoint::Json base_;       // BaseWeights::named
  bool fused_experts_ = false;  // as in what the run began with
  BatchFiller filler_;          // set while something else than training reads batches
  int64_t step_ = 0, first_step_ = 0;
  int64_t samples_ = 0;          // consumed by the steps taken
  int64_t planned_samples_ = 0;  // the data is laid out for
  std::unique_ptr<Session> session_;
  std::unique_ptr<Checkpointer> checkpointer_;
  std::optional<NumericGuard> numbers_;
  std::optional<RunRecords> records_;  // where rank 0 lives
  std::optional<SampleLog> sample_log_;
  std::optional<StepTrace> trace_;
  std::optional<Plateau> plateau_;  // of a life that ends with one
  bool delink_due_ = false;
  MeasuredDelink delink_;  // of one that is due
  int64_t saved_step_ = -1;
  std::string save_error_;                           // of the last save
  bool save_due_ = false;                            // a periodic one, which waits for a step that is not skipped
  std::vector<double> seconds_;                      // of steps, as StepMetrics has them
  double behind_step_ = 0;                           // seconds that the last step took behind its program
  std::chrono::steady_clock::time_point last_beat_;  // of rank 0's loading lane
  TrainResult result_;
};

}  // namespace zrt::runtime

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/folder_lock.h"
#include "core/isa.h"
#include "models/kernels/gemm.h"
#include "runtime/data/sampler.h"
#include "runtime/engine/session_options.h"
#include "runtime/plan/setup.h"
#include "runtime/program/expert_loads.h"
#include "runtime/train/base_weights.h"
#include "runtime/train/carry.h"
#include "runtime/train/checkpoint/adapters.h"
#include "runtime/train/checkpoint/expert_layout.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/data_identity.h"
#include "runtime/train/delink.h"
#include "runtime/train/launch/failure.h"
#include "runtime/train/length.h"
#include "runtime/train/lives.h"
#include "runtime/train/numeric_guard.h"
#include "runtime/train/resume.h"
#include "runtime/train/run_folder.h"
#include "runtime/train/run_manifest.h"
#include "runtime/train/stop_inquiry.h"
#include "runtime/train/telemetry/records.h"
#include "runtime/train/telemetry/run_summary.h"
#include "runtime/train/telemetry/sample_log.h"
#include "runtime/train/telemetry/step_trace.h"
#include "runtime/train/train_data.h"
#include "runtime/train/training.h"

namespace zrt::runtime {
namespace {

// The first is a warm-up; the last is what `zrt report` shows.
constexpr int64_t default_traced_steps = 4;

// The delink ends with what was loaded from `begin` on.
void add_load(MeasuredDelink& delink, std::chrono::steady_clock::time_point begin) {
  const auto now = std::chrono::steady_clock::now();
  delink.load_seconds += std::chrono::duration<double>(now - begin).count();
  delink.seconds = std::chrono::duration<double>(now - delink.began).count();
}

}  // namespace

void Training::start(const checkpoint::Reader* resumed) {
  fused_experts_ = resumed && checkpoint::has_fused_experts(resumed->manifest());
  if (resumed && !config_.run.load_module_only) {
    step_ = first_step_ = saved_step_ = resumed->manifest().step;
    samples_ = resumed->manifest().samples;
  }
  const int64_t needed = samples_ + (life_.until - step_) * batch_.step_samples() + life_.later_samples;
  const int64_t planned = step_ > 0 ? resumed->manifest().planned_samples : needed;
  if (step_ > 0 && resumed->manifest().made_by.value("seed", config_.run.seed) != config_.run.seed) {
    warn(
        fmt::format("run.seed is {} but the checkpoint was made with {}: from here on the order of the data is another",
                    config_.run.seed, resumed->manifest().made_by["seed"].dump()));
  }
  if (const std::string level = step_ > 0 ? other_level(resumed->manifest()) : ""; !level.empty()) warn(level);
  planned_samples_ = std::max(needed, planned);
  // The samples that the run is to read are all in the order; only its last batch reaches beyond.
  const bool rounded = needed > planned && config_.run.samples > 0 && config_.run.samples <= planned;
  if (rounded) planned_samples_ = planned;
  source_ = open_train_data(config_, model_, planned_samples_);
  tell_of(*source_, "data.train: ");
  if (rounded) {
    source_ = rounded_up(source_, planned, needed);
  } else if (needed > planned && !same_order(*open_train_data(config_, model_, planned), *source_, planned)) {
    warn(
        fmt::format("the data was laid out for {} samples and is now for {}: from here on its order is another, and "
                    "samples of the epoch at hand may come twice or not at all. Set run.steps as long as the run will "
                    "be from the start.",
                    planned, needed));
  }
  ahead_ = std::make_unique<data::ReadAhead>(source_);
  const std::vector<std::string> phases = training_phases(config_, resumed ? "load" : "init");
  validation_ = open_validation_data(config_, model_);
  for (const EvalSet& set : validation_.value_or(EvalData{})) tell_of(*set.source, "held out: ");
  data_ = data_json(config_, model_, *source_, validation_);
  if (resumed) {
    const checkpoint::Json before = resumed->manifest().made_by.value("data", checkpoint::Json());
    const std::vector<std::string> changes = step_ > 0 ? data_changes(before, data_, samples_, config_.run.samples > 0)
                                                       : std::vector{other_tokenizer(before, data_)};
    for (const std::string& change : changes) {
      if (!change.empty()) warn(change);
    }
  }
  if (const std::string slow = tensor_across_hosts(config_, transport_.host_count()); !slow.empty()) warn(slow);
  transport_.require_device(config_.run.device);
  SessionOptions options = session_options(config_);
  const RunPlace place = run_place(transport_, config_.run.device, config_.run.share_gpu, options.timeout);
  if (!place.lines.empty() && hooks_.gpus) hooks_.gpus(place.lines);
  std::vector<Compiled> compiled = compile_within_budget(config_, model_, phases, place);
  options.warn = [this](const std::string& text) { warn(text); };
  comm::require_equal(transport_, "the level of instruction sets (ZRT_MAX_ISA sets a common one)",
                      std::string(core::isa_name(core::best_isa())), options.timeout);
  require_same_data(transport_, data_, options.timeout);
  comm::require_equal(transport_, "the kernel table", models::kernel_table_hash(), options.timeout);
  std::string programs;
  for (const Compiled& stage : compiled) programs += stage.set.xxh3();
  comm::require_equal(transport_, "the programs", programs, options.timeout);
  if (hooks_.planned) hooks_.planned(compiled);
  require_savable(out_, config_, transport_);
  if (transport_.leads()) {
    // A start with nothing left to train keeps the file of what was trained.
    if (step_ < config_.run.steps || !std::filesystem::exists(out_ / "config.resolved.json")) {
      out_.write("config.resolved.json", resolved_);
    }
    carry_files(config_, resumed, out_ / checkpoint::carried_name, [this](const std::string& text) { warn(text); });
    remove_failure(out_);
    records_.emplace(config_, out_, step_, samples_, experts_before(model_) > 0);
    checkpoint::remove_leftovers(out_ / "checkpoints");
  }

  SessionHooks hooks;
  hooks.batch = [this](int rank, uint32_t microbatch, const data::SampleRows& to) { read_batch(rank, microbatch, to); };
  hooks.stuck = hooks_.stuck;
  const bool states = resumed && resumed->states() && !config_.run.load_module_only;
  if (resumed) {
    const bool delinks = !life_.sharing && config_.pseudo_to_real;
    const StatesAtDelink how = delinks ? config_.pseudo_to_real->states : StatesAtDelink::copy;
    hooks.load = [resumed, how](const std::string& tensor, int64_t begin, std::span<float> out) {
      read_delinked(*resumed, how, tensor, begin, out);
    };
    hooks.loads_states = states;
    if (model_.adapters.rank > 0) {
      hooks.begins_anew = [resumed](const std::string& parameter) { return !resumed->weights().has(parameter); };
    }
    if (resumed->sharing() && !life_.sharing) {
      hooks.origin = [resumed](const std::string& tensor) { return resumed->origin(tensor); };
    }
  }
  session_ = std::make_unique<Session>(std::move(compiled), options, std::move(hooks), transport_);
  // A file that an earlier run left would tell of steps that this one takes anew.
  if (!config_.run.log_samples && transport_.leads()) std::filesystem::remove(out_ / "samples.jsonl");
  if (config_.run.log_samples) {
    sample_log_.emplace(out_ / "samples.jsonl", step_, transport_, options.timeout, session_->first_local(),
                        session_->local_count());
  }
  if (resumed && hooks_.resumed) hooks_.resumed(step_, resumed->folder().string(), load_host_bytes(*resumed));
  const auto begin = std::chrono::steady_clock::now();
  session_->run(phases.front(), {});
  if (result_.summary.delink) add_load(*result_.summary.delink, begin);
  if (resumed) require_finite_weights(*session_, resumed->folder());
  if (states || (resumed && resumed->manifest().control.is_object() && !config_.run.load_module_only)) {
    Persistent persistent =
        parse_control(resumed->manifest().control, config_.optimizer.algorithm->members(), resumed->folder().string());
    persistent.loss_scale = optimizer::resumed_loss_scale(options.loss_scale, persistent.loss_scale);
    for (int local = 0; local < session_->local_count(); ++local) {
      session_->executor(local).control().persistent = persistent;
    }
  }
  const bool copies = session_->stages().front().set.has("save");
  if (config_.run.checkpoint_interval > 0 && !copies && transport_.leads()) {
    warn(
        "training stands still while checkpoints are written: memory does not hold copies of what they need beside "
        "it (memory.host_budget_bytes, or the machine's)");
  }
  const BaseWeights base = base_weights(config_, resumed);
  base_ = base.named;
  CheckpointOptions checkpoints{[this] { return out_ / "checkpoints"; }, config_.run.keep_last, config_.run.keep_every,
                                copies, base.lies_elsewhere};
  checkpointer_ = std::make_unique<Checkpointer>(*session_, checkpoints, [this](const SaveOutcome& outcome) {
    save_error_ = outcome.error;
    if (outcome.error.empty()) saved_step_ = outcome.step, delink_.save_seconds = outcome.write_seconds;
    numbers_->saved(outcome);
    Summary& summary = result_.summary;
    ++(outcome.error.empty() ? summary.saves : summary.failed_saves);
    summary.save_stall_seconds += outcome.stall_seconds;
    if (hooks_.saved) hooks_.saved(outcome);
  });
  const auto* rules = config_.pseudo_to_real ? &*config_.pseudo_to_real : nullptr;
  if (life_.sharing && rules->plateau) {
    const bool goes_on = step_ > 0 && resumed->manifest().made_by.contains(plateau);
    plateau_.emplace(*rules->plateau, goes_on ? resumed->manifest().made_by[plateau] : checkpoint::Json());
  }
  numbers_.emplace(*session_, *checkpointer_, out_, SkipWatch(config_.run.skip_limit, options.loss_scale),
                   [this](const std::string& text) { warn(text); });
}

// Tells whoever watches the folder that the run lives, in long evaluations too.
void Training::beat() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_beat_ < std::chrono::seconds(1)) return;
  last_beat_ = now;
  out_.touch("heartbeat");
}

// Several stages of a pipeline read a batch, of which the first tells.
void Training::read_batch(int rank, uint32_t microbatch, const data::SampleRows& to) {
  if (rank == 0) beat();
  if (filler_) return filler_(rank, microbatch, to);
  const Layout& layout = layouts_.front();
  const int data_rank = layout.mesh.place(data_axes, rank);
  const bool tells = layout.mesh.place(Axis::tensor | Axis::pipeline, rank) == 0;  // of those that read the same
  const int64_t first = samples_ + data::first_sample(batch_, 0, microbatch, data_rank);
  for (int64_t row = 0; row < batch_.rows; ++row) {
    ahead_->read(first + row, to.from(row * model_.sequence));
    if (sample_log_ && tells) sample_log_->read(rank, first + row, source_->origin(first + row));
  }
}

// Every process asks for all ranks' samples: the loss is divided by what counts in all of them.
int64_t Training::counted_targets() const {
  int64_t counted = 0;
  for (int64_t i = 0; i < batch_.step_samples(); ++i) counted += source_->counted(samples_ + i);
  return counted;
}

void Training::step() {
  const auto begin = std::chrono::steady_clock::now();
  // A skipped step does not move the schedule.
  const uint64_t updates = session_->executor(0).control().persistent.progress[0].updates;
  StepInputs inputs{static_cast<uint64_t>(config_.run.seed), static_cast<uint32_t>(step_), 0,
                    config_.schedule.rates(static_cast<int64_t>(updates))};
  if (config_.pseudo_to_real) inputs.rates.lr *= rate_factor(*config_.pseudo_to_real, life_, step_);
  if (hooks_.requests) inputs.requests = hooks_.requests();
  inputs.counted = counted_targets();
  ahead_->begin_step(batch_.step_samples());
  if (trace_) trace_->before_step(step_ + 1);
  numbers_->take_step(step_ + 1, [&] { session_->run("step", inputs); });
  const auto end = std::chrono::steady_clock::now();
  seconds_.push_back(std::chrono::duration<double>(end - begin).count() + behind_step_);
  ++step_;
  samples_ += batch_.step_samples();
  result_.last = read_metrics(*session_, step_, seconds_.back());
  if (result_.last.counted_tokens != inputs.counted) {
    throw core::Error(
        fmt::format("step {}: {} tokens were to enter the loss and {} did: the data changed while it was "
                    "read, or this is a fault of zrt",
                    step_, inputs.counted, result_.last.counted_tokens));
  }
  if (loads_due()) result_.last.expert_loads = read_expert_loads(*session_);
  if (const std::string renamed = out_.renamed(); !renamed.empty()) warn(renamed);
  if (records_) {
    records_->step(result_.last, samples_);
    if (const std::string error = records_->new_error(); !error.empty()) warn(error + "; training goes on");
  }
  if (sample_log_) {
    sample_log_->end_step(step_);
    if (const std::string error = sample_log_->new_error(); !error.empty()) warn(error + "; training goes on");
  }
  if (hooks_.step) hooks_.step(result_.last);
  numbers_->stepped(result_.last);
  if (result_.last.counted_tokens > 0) last_loss_ = result_.last.loss;
  const bool flat = plateau_ && result_.last.counted_tokens > 0 && plateau_->reached(result_.last.loss);
  delink_due_ = life_.sharing && (flat || config_.pseudo_to_real->at_step == step_);
  if (delink_due_) delink_.began = std::chrono::steady_clock::now();
  behind_step_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - end).count();
}

// All processes say the same.
bool Training::loads_due() const {
  const int64_t interval = config_.run.log_interval;
  if (interval == 0 || !has_experts(*session_)) return false;
  return step_ % interval == 0 || step_ == 1 || step_ == config_.run.steps;
}

void Training::start_trace() {
  if (!config_.run.trace) return;
  const auto [first, last] = config_.run.trace_steps.value_or(std::pair{step_ + 1, step_ + default_traced_steps});
  if (first > config_.run.steps || last <= step_) {
    warn(fmt::format("run.trace_steps is [{}, {}], but this run takes the steps {} to {}: nothing is traced", first,
                     last, step_ + 1, config_.run.steps));
    return;
  }
  if (first > life_.until) return;  // a later life draws them
  const StepRange range{std::max(first, step_ + 1), std::min(last, life_.until)};
  trace_.emplace(*session_, out_, range);
  if (!trace_->note().empty()) warn(trace_->note());
}

bool Training::after_step() {
  checkpointer_->poll();
  const uint32_t requests = session_->executor(0).control().requests;
  const auto due = [&](int64_t interval) { return interval > 0 && step_ % interval == 0 && step_ < config_.run.steps; };
  save_due_ = save_due_ || due(config_.run.checkpoint_interval);
  if ((requests & save_requested) != 0 || (save_due_ && !numbers_->skipping())) save();
  if ((requests & stop_requested) != 0 && step_ < config_.run.steps) {
    result_.summary.exit_reason = "stopped by a signal";
    return false;
  }
  if (!validation_ || !due(config_.run.eval_interval) || evaluate_now(config_.run.eval_batches)) return true;
  result_.summary.exit_reason = "stopped by a signal";
  return false;
}

void Training::save() {
  save_due_ = false;
  checkpoint::Manifest manifest = run_manifest(config_, layouts_, session_->executor(0).control().persistent);
  manifest.step = step_;
  manifest.samples = samples_;
  manifest.made_by["data"] = data_;
  if (!base_.is_null()) manifest.made_by[checkpoint::base_key] = base_;
  checkpoint::keep_fused_experts(manifest, fused_experts_);
  manifest.planned_samples = planned_samples_;
  if (life_.sharing) manifest.made_by[checkpoint::shared_layers] = checkpoint::sharing_json(*life_.sharing);
  if (delink_due_) manifest.made_by[delink_due] = true;
  if (plateau_) manifest.made_by[plateau] = plateau_->json();
  if (life_.delinked_at) manifest.made_by[delinked_at] = *life_.delinked_at;
  checkpointer_->save(manifest);
  numbers_->require_finite_saves();
}

std::optional<Evaluation> Training::evaluate_now(int64_t limit) {
  StopInquiry inquiry(transport_, hooks_.stopping, session_->timeout());
  Evaluation evaluation = evaluate(*session_, *validation_, filler_, limit, [&] { return inquiry.ask(); });
  if (evaluation.cut_short) {
    warn(fmt::format("step {}: the evaluation was cut short, as the run was asked to stop", step_));
    return std::nullopt;
  }
  if (records_) records_->evaluated(step_, samples_, evaluation);
  if (hooks_.evaluated) hooks_.evaluated(step_, evaluation);
  if (!std::isfinite(evaluation.loss)) {
    warn(fmt::format("step {}: the held-out loss is not finite: the model overflows on {}", step_,
                     config_.data.validation.front().split.empty() ? "data.validation" : "the part of data.split"));
  }
  return evaluation;
}

void Training::finish() {
  Summary& summary = result_.summary;
  const bool over = summary.exit_reason == "finished";
  if (config_.run.save_weights || !over) {
    checkpointer_->wait();
    if (saved_step_ != step_) save();
  }
  checkpointer_->wait();
  numbers_->over(step_, saved_step_ == step_);
  if (summary.exit_reason == delinked) summary.delink = delink_;
  if (validation_ && over) summary.validation = evaluate_now(0);
  summary.steps = step_;
  summary.skipped = step_ - static_cast<int64_t>(session_->executor(0).control().persistent.progress[0].updates);
  summary.final_loss = last_loss_;
  measure_run(*session_, seconds_, result_.last.tokens, summary);
  summary.model_flops_per_second = summary.tokens_per_second * model_.flops_per_token();
  result_.memory = measure_memory(*session_);
  if (!transport_.leads()) return;
  out_.write(life_.sharing ? "memory.pseudo.json" : "memory.json", to_json(result_.memory));
  // Another life follows: whoever finds the folder before its end finds no summary.
  if (summary.exit_reason != delinked) out_.write("summary.json", to_json(summary));
  result_.folder = out_.string();
}

// The checkpoint is of the last step or later. The files that the run left, if it came so far, stay.
TrainResult Training::nothing_to_do() {
  warn(fmt::format("nothing to train: the checkpoint is of step {} and run.steps is {}", step_, config_.run.steps));
  Summary& summary = result_.summary;
  summary.steps = step_;
  summary.skipped = step_ - static_cast<int64_t>(session_->executor(0).control().persistent.progress[0].updates);
  summary.state_xxh3 = session_->state_xxh3();
  summary.kernel_table_xxh3 = models::kernel_table_hash();
  if (records_) summary.final_loss = records_->last_loss();
  records_.reset();  // holds the evaluation of this step
  if (validation_) summary.validation = evaluate_now(0);
  if (!transport_.leads()) return result_;
  if (!std::filesystem::exists(out_ / "summary.json")) out_.write("summary.json", to_json(summary));
  return result_;
}

TrainResult Training::run(const checkpoint::Reader* resumed, const Summary& so_far) {
  result_.summary = so_far;
  if (resumed) {
    const auto heard = [this](const std::string& text) { warn(text); };
    require_fits(*resumed, config_, layouts_, transport_.leads() ? heard : std::function<void(const std::string&)>());
  }
  start(resumed);
  result_.summary.exit_reason = "finished";
  if (step_ >= config_.run.steps) return nothing_to_do();
  start_trace();
  while (step_ < life_.until && !delink_due_) {
    step();
    const bool more = after_step();
    if (trace_) {
      const bool last = !more || delink_due_;
      if (const std::string error = trace_->after_step(step_, last); !error.empty()) warn(error);
    }
    if (!more) break;
  }
  if (delink_due_ && step_ < config_.run.steps && result_.summary.exit_reason == "finished") {
    result_.summary.exit_reason = delinked;
  }
  finish();
  if (!save_error_.empty()) {
    throw core::DataError(fmt::format("the last checkpoint could not be saved: {}", save_error_));
  }
  return result_;
}

}  // namespace zrt::runtime

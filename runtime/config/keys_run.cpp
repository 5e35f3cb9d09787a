// The section "run": its keys, and what reads them.
#include <filesystem>

#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key run_rows[] = {
    key("steps", t_int, "1000", between(1, most), Effect::results,
        "Steps of the run, those before it was resumed included."),
    key("epochs", t_real | t_null, "null", between(0, most), Effect::results,
        "Length of the run in passes over data.train, in place of run.steps. Each dataset counts once; fractions are "
        "legal; the steps are rounded up."),
    key("tokens", t_int | t_null, "null", at_least(1), Effect::results,
        "Length of the run in place of run.steps: tokens to train on; in steps, rounded up."),
    key("samples", t_int | t_null, "null", between(1, most), Effect::results,
        "Length of the run in place of run.steps: samples to train on; in steps, rounded up."),
    key("seed", t_int, "1", at_least(0), Effect::results,
        "Start of all random numbers: initial weights, order of samples, dropout, rounding."),
    key("out", t_text | t_null, "null", Effect::reports, "Folder of what the run writes; null: runs/NAME-TIME."),
    key("name", t_text | t_null, "null", Effect::reports,
        "Name of the run, for its folder; null: that of the configuration's file."),
    key("log_interval", t_int | t_null, "null", at_least(0), Effect::reports,
        "Steps from one printed line to the next; 0: none. null: steps_per_print."),
    key("log_samples", t_bool, "false", Effect::reports,
        "Write which samples each rank reads in each step to samples.jsonl."),
    key("eval_interval", t_int, "0", between(0, most), Effect::reports,
        "Steps from one evaluation on held-out data to the next; 0: only after the last step."),
    key("eval_batches", t_int, "8", between(1, most), Effect::reports, "Batches of an evaluation during the run."),
    key("checkpoint_interval", t_int, "0", between(0, most), Effect::reports,
        "Steps from one checkpoint to the next; 0: one after the last step."),
    key("keep_last", t_int, "2", between(2, most), Effect::reports,
        "The newest checkpoints, so many of which are kept."),
    key("keep_every", t_int, "0", between(0, most), Effect::reports,
        "Checkpoints of every so many steps are kept for good; 0: of none."),
    key("resume", t_text | t_null, "null", Effect::results,
        "Checkpoint to go on from: its folder, that of its run, or auto: the newest of this run, if any. null: "
        "start anew."),
    key("load_module_only", t_bool, "false", Effect::results,
        "Of the checkpoint to resume take the weights alone, and begin with step 1."),
    key("save_weights", t_bool, "true", Effect::reports, "Write a checkpoint after the last step."),
    key("skip_limit", t_int, "10", between(0, most), Effect::reports,
        "Skipped steps in a row that end the run, without those by which a dynamic loss scale finds its range or in "
        "which no token counts; 0: none do."),
    key("timeout_seconds", t_int, "120", between(1, 1000000), Effect::cost,
        "Seconds that a rank waits for another before the run ends with an error."),
    key("threads_per_rank", t_int, "1", between(1, 4096), Effect::results,
        "Threads with which a rank computes; with another number sums may be rounded otherwise."),
    key("device", t_text, R"("cpu")", one_of("cpu cuda"), Effect::results, "What a rank computes on."),
    key("share_gpu", t_bool, "false", Effect::cost,
        "Let ranks take turns on a GPU where a host has fewer GPUs than ranks: slower, for tests."),
    key("kernel_table", t_text | t_null, "null", Effect::results,
        "File of zrt bench tune with the fastest GPU kernel of each size; null: built-in choices."),
    key("trace", t_bool, "false", Effect::reports,
        "Write when each operation of some steps began and ended to trace.json."),
    key("trace_steps", t_list | t_null, "null", Effect::reports,
        "The first and the last step that run.trace draws, such as [100, 103]; null: the first four."),
    key("stress_seed", t_int, "0", at_least(0), Effect::cost,
        "Other than 0: operations start late at random, to find what only luck orders. No result may change."),
};

std::optional<std::pair<int64_t, int64_t>> build_trace_steps(const Values& values) {
  const Value& range = values.at("run.trace_steps");
  if (range.value.is_null()) return std::nullopt;
  const auto& list = range.value;
  const bool two = list.size() == 2 && list[0].is_number_integer() && list[1].is_number_integer();
  if (!two || list[0] < 1 || list[1] < list[0]) {
    refuse(range, "must be the first and the last step to trace, counted from 1, for example [100, 103].");
  }
  return std::pair{list[0].get<int64_t>(), list[1].get<int64_t>()};
}

void build_device(const Values& values, RunConfig& run) {
  run.device = core::parse_device(values.choice("run.device")).value();
  run.kernel_table = optional_text(values, "run.kernel_table");
  if (!run.kernel_table.empty() && run.device != core::DeviceKind::cuda) {
    refuse(values.at("run.kernel_table"), "is for run.device = \"cuda\": the CPU has no choice of kernels.");
  }
}

}  // namespace

std::span<const Key> run_keys() {
  return run_rows;
}

RunConfig build_run(Values& values, const std::string& name) {
  RunConfig run;
  run.steps = values.integer("run.steps");
  run.seed = values.integer("run.seed");
  run.out = optional_text(values, "run.out");
  if (run.out.empty() && !values.is_null("run.out")) {
    refuse(values.at("run.out"), "names no folder. Name one, or leave it out: runs/<name>-<time> is taken then.");
  }
  if (values.is_null("run.name")) values.infer("run.name", name);
  run.name = values.text("run.name");
  values.check([&] {
    if (!run.name.empty() && run.name.find('/') == std::string::npos) return;
    refuse(values.at("run.name"), "must be a file name: not empty and without '/'.");
  });
  // 2e16 is a way to say never.
  const auto print = values.optional_integer("steps_per_print");
  if (values.is_null("run.log_interval")) values.infer("run.log_interval", print.value_or(10));
  run.log_interval = values.integer("run.log_interval");
  run.log_samples = values.flag("run.log_samples");
  run.eval_interval = values.integer("run.eval_interval");
  run.eval_batches = values.integer("run.eval_batches");
  run.save_weights = values.flag("run.save_weights");
  run.trace = values.flag("run.trace");
  values.check([&] { run.trace_steps = build_trace_steps(values); });
  if (run.trace_steps && !run.trace)
    values.warnings.push_back("run.trace_steps has no effect without run.trace = true.");
  if (run.eval_interval > 0 && values.is_null("data.validation") && values.is_null("data.split")) {
    values.warnings.push_back(
        "run.eval_interval has no effect without data.validation or data.split: nothing is held out.");
  }
  run.checkpoint_interval = values.integer("run.checkpoint_interval");
  run.keep_last = values.integer("run.keep_last");
  run.keep_every = values.integer("run.keep_every");
  run.resume = optional_text(values, "run.resume");
  run.load_module_only = values.flag("run.load_module_only");
  run.skip_limit = values.integer("run.skip_limit");
  run.timeout_seconds = values.integer("run.timeout_seconds");
  run.threads_per_rank = static_cast<int>(values.integer("run.threads_per_rank"));
  values.check([&] { build_device(values, run); });
  run.share_gpu = values.flag("run.share_gpu");
  if (run.share_gpu && run.device != core::DeviceKind::cuda) {
    values.warnings.push_back("run.share_gpu has no effect without run.device = \"cuda\": ranks share no GPU.");
  }
  run.stress_seed = values.integer("run.stress_seed");
  return run;
}

}  // namespace zrt::runtime::configuration

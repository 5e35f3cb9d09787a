#include "runtime/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "models/data/blended_dataset.h"
#include "models/data/sampler.h"
#include "models/kernels/gemm.h"
#include "runtime/safetensors.h"
#include "runtime/setup.h"

namespace zrt::runtime {
namespace {

namespace data = models::data;

std::unique_ptr<data::SampleSource> open_train_data(const Config& config, const Layout& layout) {
  if (config.data.train.empty()) {
    throw core::ConfigError(
        "data.train is not set; it names the prefix of a .bin/.idx pair, for example one that `zrt data build --out "
        "PREFIX FILE…` makes");
  }
  std::vector<data::WeightedPrefix> prefixes;
  for (const DataSource& source : config.data.train) {
    const auto meta = data::read_meta(source.prefix);
    if (meta && meta->vocabulary > config.model.vocab) {
      throw core::ConfigError(fmt::format(
          "model.vocab is {} but dataset {} was made by tokenizer '{}' with {} tokens; set model.vocab to at least {}",
          config.model.vocab, source.prefix, meta->tokenizer, meta->vocabulary, meta->vocabulary));
    }
    prefixes.push_back({source.weight, source.prefix});
  }
  data::GptDatasetOptions common;
  common.sequence = layout.sequence;
  common.vocabulary = config.model.vocab;
  common.seed = static_cast<uint32_t>(config.run.seed);
  const data::BatchShape shape{layout.micro_batch, layout.dp, static_cast<int64_t>(layout.microbatches)};
  return data::open_training_data(prefixes, config.run.steps * shape.step_samples(), common);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The device is read by the kernel; a rounding of the rate to fp32 happens once, in the control block.
StepMetrics read_metrics(Session& session, const Layout& layout, int64_t step, double seconds) {
  Executor& executor = session.executor(0);
  const Control& control = executor.control();
  StepMetrics m;
  m.step = step;
  m.loss = control.mean_loss;
  m.grad_norm = control.grad_norm;
  m.lr = control.inputs.lr;
  m.loss_scale = static_cast<double>(control.inputs.loss_scale);
  m.tokens = layout.micro_batch * layout.sequence * layout.dp * static_cast<int64_t>(layout.microbatches);
  m.step_seconds = seconds;
  m.exposed_comm_seconds = executor.exposed_comm_seconds();
  m.exposed_io_seconds = executor.exposed_io_seconds();
  return m;
}

std::string save_weights(Session& session, const models::Model& model, const std::filesystem::path& folder) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const auto& ref : model.canonical_params()) {
    const models::Param& param = model.blocks[ref.block]->params()[ref.index];
    tensors.push_back({param.name, param.shape});
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw core::DataError(fmt::format("the weights' folder {} cannot be made: {}", folder.string(), error.message()));
  }
  SafetensorsWriter writer(folder / "model.safetensors", tensors);
  session.save([&](const models::Param& param, const float* weights) {
    writer.append(weights, static_cast<uint64_t>(param.elements()));
  });
  writer.finish();
  return folder / "model.safetensors";
}

}  // namespace

TrainResult train(const Config& config, const TrainHooks& hooks) {
  return train(config, make_model(config.model), hooks);
}

TrainResult train(const Config& config, const models::Model& model, const TrainHooks& hooks) {
  const Layout layout = make_layout(config, model);
  const auto source = open_train_data(config, layout);
  std::vector<std::string> phases{"init", "step", "save"};
  std::optional<EvalData> validation;
  if (!config.data.validation.empty()) {
    validation = open_eval_data(config.data.validation, config.model);
    phases.push_back("eval");
  }
  Compiled compiled = compile_within_budget(config, layout, phases);
  if (hooks.planned) hooks.planned(layout, compiled);

  const std::filesystem::path out = config.run.out;
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) {
    throw core::DataError(fmt::format("run.out: the folder {} cannot be made: {}", out.string(), error.message()));
  }
  write_file(out / "config.resolved.json", resolved_json(config));
  std::ofstream metrics_file(out / "metrics.jsonl");

  const data::BatchShape batch{layout.micro_batch, layout.dp, static_cast<int64_t>(layout.microbatches)};
  int64_t step = 0;
  BatchFiller filler;  // set while something else than training reads batches
  auto fill = [&](int rank, uint32_t microbatch, int32_t* tokens, int32_t* targets) {
    if (filler) return filler(rank, microbatch, tokens, targets);
    const int64_t first = data::first_sample(batch, step, microbatch, rank);
    for (int64_t row = 0; row < layout.micro_batch; ++row) {
      source->read(first + row, tokens + row * layout.sequence, targets + row * layout.sequence);
    }
  };
  Session session(layout, std::move(compiled), session_options(config), {fill, {}});
  session.run("init", {});

  TrainResult result;
  std::vector<double> seconds;
  auto evaluate_now = [&](int64_t limit) {
    Evaluation evaluation = evaluate(session, *validation, filler, limit);
    if (hooks.evaluated) hooks.evaluated(step, evaluation);
    return evaluation;
  };
  result.summary.exit_reason = "finished";
  for (; step < config.run.steps;) {
    const StepInputs inputs{static_cast<uint64_t>(config.run.seed), config.schedule.rate(step), 1,
                            static_cast<uint32_t>(step), 0};
    const auto start = std::chrono::steady_clock::now();
    session.run("step", inputs);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    ++step;
    result.last = read_metrics(session, layout, step, seconds.back());
    metrics_file << to_json(result.last) << std::endl;
    if (!metrics_file)
      throw core::DataError(fmt::format("{} cannot be written; is the disk full?", (out / "metrics.jsonl").string()));
    if (hooks.step) hooks.step(result.last);
    const int64_t interval = config.run.eval_interval;
    if (validation && interval > 0 && step % interval == 0 && step < config.run.steps) {
      evaluate_now(config.run.eval_batches);
    }
    if (hooks.stop && hooks.stop()) {
      result.summary.exit_reason = "stopped by a signal";
      break;
    }
  }

  Summary& summary = result.summary;
  if (validation) summary.validation = evaluate_now(0);
  if (config.run.save_weights) save_weights(session, model, out / "checkpoints" / fmt::format("step_{}", step));
  summary.steps = step;
  summary.final_loss = result.last.loss;
  summary.state_xxh3 = session.state_xxh3();
  summary.kernel_table_xxh3 = models::kernel_table_hash();
  summary.step_seconds = median(seconds);
  summary.tokens_per_second = static_cast<double>(result.last.tokens) / summary.step_seconds;
  summary.model_flops_per_second = summary.tokens_per_second * model.flops_per_token();
  summary.comm = session.executor(0).comm_volume();
  summary.verify_seconds = session.compiled().verify_seconds;
  summary.packing_overhead = session.compiled().plan.packing_overhead();
  result.memory = measure_memory(session);
  write_file(out / "memory.json", to_json(result.memory));
  write_file(out / "summary.json", to_json(summary));
  if (config.run.trace) write_file(out / "trace.json", trace_json(session, "step"));
  return result;
}

}  // namespace zrt::runtime

#include "runtime/config/build.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "optimizer/zero.h"
#include "runtime/config/text.h"

namespace zrt::runtime::configuration {
namespace {

using core::DType;
using nlohmann::json;

constexpr int64_t most = int64_t{1} << 40;  // samples, microbatches, steps

std::optional<int64_t> optional_integer(const Values& values, std::string_view path, int64_t low, int64_t high) {
  if (values.is_null(path)) return std::nullopt;
  return values.integer(path, low, high);
}

std::string optional_text(const Values& values, std::string_view path) {
  return values.is_null(path) ? std::string() : values.text(path);
}

// "fp32", "fp16" or "bf16", in any case; no value for null.
std::optional<DType> optional_type(const Values& values, std::string_view path) {
  if (values.is_null(path)) return std::nullopt;
  std::string name = values.text(path);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c); });
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    if (name == core::dtype_name(type)) return type;
  }
  refuse(values.at(path), "is no type; legal: null, \"fp32\", \"bf16\" and \"fp16\".");
}

// The number of ranks that a complete triple implies.
int implied_ranks(const Values& values, const ParallelConfig& parallel) {
  for (const char* key : {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
    if (values.is_null(key)) throw core::ConfigError(std::string(key) + " is missing, so the ranks are not known.");
  }
  const int64_t train = values.integer("train_batch_size", 1, most);
  const int64_t micro = values.integer("train_micro_batch_size_per_gpu", 1, most);
  const int64_t steps = values.integer("gradient_accumulation_steps", 1, most);
  const int64_t ranks = train / micro / steps;
  return static_cast<int>(std::min<int64_t>(ranks, Mesh::max_ranks)) * parallel.tensor * parallel.pipeline;
}

BatchConfig build_batch(Values& values, int data_ranks) {
  const auto number = [&](const char* key) { return optional_integer(values, key, INT64_MIN, most); };
  const std::optional<int64_t> train = number("train_batch_size"), micro = number("train_micro_batch_size_per_gpu"),
                               accumulation = number("gradient_accumulation_steps");
  const BatchConfig batch = resolve_batch(train, micro, accumulation, data_ranks);
  if (!train) values.infer("train_batch_size", batch.train);
  if (!micro) values.infer("train_micro_batch_size_per_gpu", batch.micro);
  if (!accumulation) values.infer("gradient_accumulation_steps", batch.accumulation);
  return batch;
}

// A group of `key` ranks; `none` and 1 stand for no groups.
int group_size(const Values& values, const char* key, int64_t none, int data_ranks) {
  const int64_t size = values.integer(key, std::min<int64_t>(none, 1), Mesh::max_ranks);
  if (size == none || size == 1) return 1;
  if (size < 1 || data_ranks % size != 0) {
    refuse(values.at(key), "must divide the " + std::to_string(data_ranks) +
                               " data-parallel ranks. Try the number of ranks of a host.");
  }
  return static_cast<int>(size);
}

void build_groups(const Values& values, ZeroConfig& zero, ParallelConfig& parallel, int data_ranks) {
  constexpr const char *hpz = "zero_optimization.zero_hpz_partition_size", *mics = "zero_optimization.mics_shard_size",
                       *hierarchical = "parallel.hierarchical_ranks";
  zero.hpz_partition_size = group_size(values, hpz, 0, data_ranks);
  zero.mics_shard_size = group_size(values, mics, -1, data_ranks);
  if (zero.mics_shard_size == 1) {
    if (values.at(mics).value == 1) refuse(values.at(mics), "would shard nothing; legal: -1 and 2 or more.");
    zero.mics_shard_size = 0;
  }
  if (zero.mics_shard_size == data_ranks) zero.mics_shard_size = 0;
  parallel.hierarchical_ranks = group_size(values, hierarchical, 1, data_ranks);
  for (const char* key : {hpz, mics}) {
    const bool set = key == hpz ? zero.hpz_partition_size > 1 : zero.mics_shard_size > 0;
    if (set && zero.stage != 3) refuse(values.at(key), "belongs to zero_optimization.stage 3.");
  }
  if (zero.mics_shard_size > 0 && (zero.hpz_partition_size > 1 || parallel.hierarchical_ranks > 1)) {
    refuse(values.at(mics),
           "cannot be combined with zero_hpz_partition_size or parallel.hierarchical_ranks: its "
           "collectives have the levels of its shard groups. Set one of them.");
  }
  if (zero.hpz_partition_size > 1 && parallel.hierarchical_ranks > 1 &&
      zero.hpz_partition_size != parallel.hierarchical_ranks) {
    refuse(values.at(hpz), "must equal parallel.hierarchical_ranks = " + std::to_string(parallel.hierarchical_ranks) +
                               " where both are set.");
  }
}

ZeroConfig build_zero(Values& values) {
  ZeroConfig zero;
  zero.stage = static_cast<int>(values.integer("zero_optimization.stage", 0, 3));
  zero.reduce_bucket_size = values.integer("zero_optimization.reduce_bucket_size", 0);
  zero.allgather_bucket_size = values.integer("zero_optimization.allgather_bucket_size", 0);
  zero.max_reuse_distance = values.integer("zero_optimization.stage3_max_reuse_distance", 0);
  constexpr const char *prefetch = "zero_optimization.stage3_prefetch_bucket_size",
                       *threshold = "zero_optimization.stage3_param_persistence_threshold";
  if (values.given(prefetch)) zero.prefetch_bucket_size = values.integer(prefetch, 0);
  zero.max_live_parameters = values.integer("zero_optimization.stage3_max_live_parameters", 0);
  // Stage 3 is chosen for memory: nothing persists unless it is asked for.
  if (!values.given(threshold)) values.infer(threshold, 0);
  zero.param_persistence_threshold = values.integer(threshold, 0);
  zero.model_persistence_threshold = values.integer("zero_optimization.stage3_model_persistence_threshold", 0);
  if (values.is_null("zero_optimization.overlap_comm")) {
    values.infer("zero_optimization.overlap_comm", optimizer::zero_strategy(zero.stage).overlap_by_default());
  }
  zero.overlap_comm = values.flag("zero_optimization.overlap_comm");
  return zero;
}

int64_t reduce_every(Values& values, const ZeroConfig& zero, int64_t accumulation) {
  constexpr const char* key = "parallel.reduce_every";
  if (values.is_null(key)) {
    // Where all microbatches of a step go through a block before the next block, one reduction is enough.
    const bool by_layer = values.text("memory.microbatch_order") == "layer_major";
    const int64_t usual = optimizer::zero_strategy(zero.stage).reduce_every_by_default(accumulation);
    values.infer(key, by_layer ? accumulation : usual);
  }
  const int64_t every = values.integer(key, 1, most);
  if (accumulation % every != 0) {
    refuse(values.at(key), "must divide gradient_accumulation_steps = " + std::to_string(accumulation) + ". Try 1 or " +
                               std::to_string(accumulation) + ".");
  }
  return every;
}

// The type of weights, activations and operands of products, and fp16's loss scale.
void build_compute(const Values& values, PrecisionConfig& precision) {
  const bool bf16 = values.flag("bf16.enabled"), fp16 = values.flag("fp16.enabled");
  if (bf16 && fp16) refuse(values.at("fp16.enabled"), "contradicts bf16.enabled = true; enable one of them.");
  precision.compute = bf16 ? DType::bf16 : fp16 ? DType::f16 : DType::f32;
  precision.fp8 = values.flag("fp8.enabled");
  if (precision.fp8 && !bf16) {
    refuse(values.at("fp8.enabled"),
           "needs weights and activations of bf16, which linear layers round. Set bf16.enabled = true too.");
  }
  if (!fp16) return;
  for (const char* key : {"fp16.auto_cast", "fp16.fp16_master_weights_and_grads"}) {
    if (values.flag(key)) refuse(values.at(key), "is not supported; legal: false.");
  }
  optimizer::LossScaleParams& scale = precision.loss_scale;
  scale.initial = values.real("fp16.loss_scale", 0, 0x1p127);
  scale.dynamic = scale.initial == 0;
  if (!scale.dynamic) return;
  scale.initial = std::ldexp(1.0, static_cast<int>(values.integer("fp16.initial_scale_power", 0, 127)));
  scale.window = values.integer("fp16.loss_scale_window", 1);
  scale.hysteresis = values.integer("fp16.hysteresis", 1);
  scale.consecutive = values.flag("fp16.consecutive_hysteresis");
  scale.minimum = static_cast<double>(values.integer("fp16.min_loss_scale", 1, int64_t{1} << 53));
  if (scale.minimum > scale.initial) {
    refuse(values.at("fp16.min_loss_scale"), "is above the first scale, 2^fp16.initial_scale_power = " +
                                                 printed(scale.initial) + ". Choose a smaller minimum.");
  }
}

PrecisionConfig build_precision(const Values& values, int64_t accumulation, int64_t every) {
  PrecisionConfig precision;
  build_compute(values, precision);
  const std::string compute(core::dtype_name(precision.compute));
  const auto wire = optional_type(values, "communication_data_type");
  const Value& asked = values.at("communication_data_type");
  if (wire && *wire != DType::f32 && *wire != precision.compute) {
    refuse(asked, "is not supported with " + compute + " weights; legal: null, \"fp32\" and \"" + compute + "\".");
  }
  if (wire && *wire != DType::f32 && every > 1) {
    refuse(asked, "cannot be honoured: with parallel.reduce_every = " + std::to_string(every) +
                      " a rank sums its microbatches in fp32 and reduces the sum. Legal: null and \"fp32\"; or set "
                      "parallel.reduce_every to 1.");
  }
  precision.local_grad = every > 1 || wire == DType::f32 ? DType::f32 : precision.compute;
  // What arrives in fp32 stays fp32.
  precision.accumulated_grad = accumulation == 1 ? precision.local_grad : DType::f32;
  const auto wanted = optional_type(values, "data_types.grad_accum_dtype");
  if (wanted && *wanted != precision.accumulated_grad) {
    const std::string actual(core::dtype_name(precision.accumulated_grad));
    refuse(values.at("data_types.grad_accum_dtype"),
           "cannot be honoured: with " + std::to_string(accumulation) + " microbatches per step and " + compute +
               " weights, gradients are kept in " + actual + ". Legal: null and \"" + actual + "\".");
  }
  return precision;
}

MonitorConfig build_monitor(const Values& values, const std::string& section) {
  return {values.flag(section + ".enabled"), values.text(section + ".output_path"), values.text(section + ".job_name")};
}

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

RunConfig build_run(Values& values, const std::string& name) {
  RunConfig run;
  run.steps = values.integer("run.steps", 1, most);
  run.seed = values.integer("run.seed", 0);
  run.out = optional_text(values, "run.out");
  if (values.is_null("run.name")) values.infer("run.name", name);
  run.name = values.text("run.name");
  if (run.name.empty() || run.name.find('/') != std::string::npos) {
    refuse(values.at("run.name"), "must be a file name: not empty and without '/'.");
  }
  const auto print = optional_integer(values, "steps_per_print", 1, most);
  if (values.is_null("run.log_interval")) values.infer("run.log_interval", print.value_or(10));
  run.log_interval = values.integer("run.log_interval", 0, most);
  run.eval_interval = values.integer("run.eval_interval", 0, most);
  run.eval_batches = values.integer("run.eval_batches", 1, most);
  run.save_weights = values.flag("run.save_weights");
  run.trace = values.flag("run.trace");
  run.trace_steps = build_trace_steps(values);
  run.checkpoint_interval = values.integer("run.checkpoint_interval", 0, most);
  run.keep_last = values.integer("run.keep_last", 2, most);
  run.keep_every = values.integer("run.keep_every", 0, most);
  run.resume = optional_text(values, "run.resume");
  run.load_module_only = values.flag("run.load_module_only");
  run.timeout_seconds = values.integer("run.timeout_seconds", 1, 1000000);
  run.threads_per_rank = static_cast<int>(values.integer("run.threads_per_rank", 1, 4096));
  const auto device = core::parse_device(values.text("run.device"));
  if (!device) refuse(values.at("run.device"), "is no device; legal are \"cpu\" and \"cuda\".");
  run.device = *device;
  run.kernel_table = optional_text(values, "run.kernel_table");
  if (!run.kernel_table.empty() && run.device != core::DeviceKind::cuda) {
    refuse(values.at("run.kernel_table"), "is for run.device = \"cuda\": the CPU has no choice of kernels.");
  }
  run.stress_seed = values.integer("run.stress_seed", 0);
  return run;
}

}  // namespace

Config build_config(Values& values, int ranks, const std::string& name) {
  Config config;
  config.parallel.tensor = static_cast<int>(values.integer("parallel.tensor", 1, Mesh::max_ranks));
  config.parallel.cluster = optional_text(values, "parallel.cluster");
  config.parallel.pipeline = static_cast<int>(values.integer("parallel.pipeline", 1, Mesh::max_ranks));
  config.ranks = ranks != 0 ? ranks : implied_ranks(values, config.parallel);
  config.mesh = Mesh(config.ranks, config.parallel.tensor, config.parallel.pipeline);
  config.batch = build_batch(values, config.mesh.data());

  const Value& op = values.at("gradient_allreduce_op");
  if (op.value != "mean" && op.value != "MEAN" && op.value != "Mean") {
    refuse(op, "is not supported; legal: \"mean\".");
  }
  config.zero = build_zero(values);
  build_groups(values, config.zero, config.parallel, config.mesh.data());
  config.parallel.reduce_every = reduce_every(values, config.zero, config.batch.accumulation);
  config.precision = build_precision(values, config.batch.accumulation, config.parallel.reduce_every);
  config.run = build_run(values, name);
  config.tensorboard = build_monitor(values, "tensorboard");
  config.csv_monitor = build_monitor(values, "csv_monitor");
  config.optimizer = build_optimizer(values);
  config.optimizer.gradient_clipping = values.real("gradient_clipping", 0, infinity);
  config.schedule = build_schedule(values, config.optimizer, config.run.steps);
  config.model = build_model(values);
  config.data = build_data(values);
  config.memory = build_memory(values, config.zero, config.run);
  build_forms(values, config);
  build_update_when(values, config);

  config.warnings = values.warnings;
  for (const Value& value : values.all()) {
    config.keys.push_back({value.path, value.value.dump(), std::string(from_name(value.from))});
  }
  return config;
}

}  // namespace zrt::runtime::configuration

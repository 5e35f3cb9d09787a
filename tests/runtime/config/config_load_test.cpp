#include <nlohmann/json.hpp>

#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_load_test {

using namespace zrt::runtime;
using zrt::core::DType;
using zrt::optimizer::ScheduleType;
using zrt::optimizer::WarmupType;

namespace {

zrt::optimizer::AdamParams adam_of(const Config& config) {
  return *zrt::optimizer::find_params<zrt::optimizer::AdamParams>(config.optimizer.algorithm);
}

}  // namespace

TEST_CASE("a full file fills every struct") {
  const Config config = parse_config(R"({
    "train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "steps_per_print": 50,
    "bf16": {"enabled": true}, "gradient_clipping": 0.5,
    "zero_optimization": {"stage": 3, "reduce_bucket_size": 1e6, "allgather_bucket_size": "2_000_000",
                          "stage3_max_reuse_distance": 0, "offload_optimizer": {"device": "none"}},
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-7, "weight_decay": 0.1}},
    "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 2000, "warmup_num_steps": 100}},
    "model": {"type": "gpt2", "layers": 12, "hidden": 768, "heads": 12, "sequence": 1024, "vocab": 50304,
              "dropout": 0.1, "tied": false},
    "data": {"train": [[0.7, "corpus/en", "en"], [3, "corpus/de"]], "validation": "corpus/validation"},
    "parallel": {"tensor": 1, "pipeline": 1, "virtual_pipeline": 1, "sequence": false, "schedule": "1f1b",
                 "reduce_every": 2},
    "memory": {"device_budget_bytes": 2147483648, "host_budget_bytes": null, "unit_bytes": 1048576,
               "placement": "auto"},
    "run": {"steps": 2000, "seed": 7, "out": "runs/first", "eval_interval": 100, "eval_batches": 3,
            "timeout_seconds": 60, "threads_per_rank": 2, "save_weights": false, "trace": true, "trace_steps": [3, 5],
            "stress_seed": 9},
    "tensorboard": {"enabled": true, "output_path": "logs", "job_name": "first"}, "csv_monitor": {"enabled": "true"}
  })",
                                     "dir/ds.json", {}, 2);
  CHECK(config.warnings.empty());
  CHECK(config.mesh.data() == 2);
  CHECK(config.batch.accumulation == 4);
  CHECK(config.zero.stage == 3);
  CHECK(config.zero.reduce_bucket_size == 1000000);
  CHECK(config.zero.allgather_bucket_size == 2000000);
  CHECK(config.zero.max_reuse_distance == 0);
  CHECK(config.zero.overlap_comm);
  CHECK(config.optimizer.lr == 3e-4);
  CHECK(adam_of(config).beta1 == 0.9f);
  CHECK(adam_of(config).beta2 == 0.95f);
  CHECK(adam_of(config).eps == 1e-7f);
  CHECK(adam_of(config).weight_decay == 0.1f);
  CHECK(adam_of(config).decoupled);
  CHECK(adam_of(config).bias_correction);
  CHECK(config.optimizer.gradient_clipping == 0.5);
  CHECK(config.schedule.type == ScheduleType::warmup_cosine);
  CHECK(config.schedule.lr == 3e-4);
  CHECK(config.schedule.total_num_steps == 2000);
  CHECK(config.schedule.warmup_num_steps == 100);
  CHECK(config.schedule.cos_min_ratio == 1e-4);
  CHECK(config.model.layers == 12);
  CHECK(config.model.vocab == 50304);
  CHECK(config.model.dropout == 0.1);
  CHECK(!config.model.tied);
  CHECK(config.model.preset.empty());
  REQUIRE(config.data.train.size() == 2);
  CHECK(config.data.train[0].weight == 0.7);
  CHECK(config.data.train[0].language == "en");
  CHECK(config.data.train[1].prefix == "corpus/de");
  CHECK(config.data.train[1].language.empty());
  CHECK(config.data.validation.at(0).prefix == "corpus/validation");
  CHECK(config.parallel.reduce_every == 2);
  CHECK(config.memory.device_budget_bytes == 2147483648);
  CHECK(config.memory.unit_bytes == 1048576);
  CHECK(config.run.steps == 2000);
  CHECK(config.run.seed == 7);
  CHECK(config.run.out == "runs/first");
  CHECK(config.run.name == "ds");
  CHECK(config.run.log_interval == 50);
  CHECK(config.run.eval_interval == 100);
  CHECK(config.run.eval_batches == 3);
  CHECK(config.run.timeout_seconds == 60);
  CHECK(config.run.threads_per_rank == 2);
  CHECK(!config.run.save_weights);
  CHECK(config.run.trace);
  CHECK(config.run.trace_steps == std::pair<int64_t, int64_t>{3, 5});
  CHECK(config.tensorboard.enabled);
  CHECK(config.tensorboard.output_path == "logs");
  CHECK(config.tensorboard.job_name == "first");
  CHECK(config.csv_monitor.enabled);
  CHECK(config.csv_monitor.output_path.empty());
  CHECK(config.csv_monitor.job_name == "DeepSpeedJobName");
  CHECK(config.run.stress_seed == 9);
}

TEST_CASE("what is left out takes DeepSpeed's defaults") {
  const Config config = parsed("");
  CHECK(config.optimizer.gradient_clipping == 1.0);
  CHECK(config.optimizer.lr == 1e-3);
  CHECK(adam_of(config).beta2 == 0.999f);
  CHECK(config.schedule.type == ScheduleType::constant);
  CHECK(config.schedule.lr == 1e-3);
  CHECK(config.zero.stage == 0);
  CHECK(config.zero.reduce_bucket_size == 500000000);
  CHECK(!config.zero.overlap_comm);
  CHECK(config.run.log_interval == 10);
  CHECK(config.data.train.empty());
  CHECK(config.memory.unit_bytes == 67108864);
  CHECK(config.model.tied);
  CHECK(config.precision.compute == DType::f32);
}

TEST_CASE("the boolean form of zero_optimization means stage 1 or 0 and takes allgather_size") {
  const Config on = parsed(R"("zero_optimization": true, "allgather_size": 5e6,)");
  CHECK(on.zero.stage == 1);
  CHECK(on.zero.allgather_bucket_size == 5000000);
  CHECK(warned(on, "old form of {\"stage\": 1}"));
  CHECK(parsed(R"("zero_optimization": false,)").zero.stage == 0);
}

TEST_CASE("fp8 is off unless it is asked for beside bf16, and shows in the resolved keys") {
  CHECK(!parsed("").precision.fp8);
  CHECK(!parsed(R"("bf16": {"enabled": true}, "fp8": {},)").precision.fp8);
  CHECK(!parsed(R"("fp8": {"enabled": false},)").precision.fp8);
  const Config config = parsed(R"("bf16": {"enabled": true}, "fp8": {"enabled": true},)");
  CHECK(config.precision.fp8);
  CHECK(config.precision.compute == DType::bf16);
  const auto key = std::find_if(config.keys.begin(), config.keys.end(),
                                [](const auto& resolved) { return resolved.path == "fp8.enabled"; });
  REQUIRE(key != config.keys.end());
  CHECK(key->value == "true");
}

TEST_CASE("strict sections coerce as DeepSpeed's models do, and the others do not") {
  for (const char* stage : {"2", "2.0", "\"2\""}) {
    CHECK(parsed(std::string(R"("zero_optimization": {"stage": )") + stage + "},").zero.stage == 2);
  }
  CHECK(parsed(R"("zero_optimization": {"stage": true},)").zero.stage == 1);
  for (const char* yes : {"true", "1", "1.0", "\"yes\"", "\"On\"", "\"TRUE\""}) {
    CHECK(parsed(std::string(R"("bf16": {"enabled": )") + yes + "},").precision.compute == DType::bf16);
  }
  for (const char* bad : {"2", "null", "\"2\"", "\"maybe\"", "[]", "{}"}) {
    CHECK(has(parse_error(std::string(R"("bf16": {"enabled": )") + bad + "},"), "bf16.enabled"));
  }
  for (const char* bad :
       {"1.5", "\"5e8\"", "\"5__0\"", "\"_5\"", "null", "-1", "\"\"", "1e30", "9223372036854775808.0"}) {
    const std::string error = parse_error(std::string(R"("zero_optimization": {"reduce_bucket_size": )") + bad + "},");
    CHECK(has(error, "zero_optimization.reduce_bucket_size = " + nlohmann::json::parse(bad).dump()));
    CHECK(has(error, "an integer of at least 0"));
  }
  CHECK(has(parse_error(R"("steps_per_print": "10",)"), "steps_per_print = \"10\""));
  CHECK(parsed(R"("steps_per_print": 1e2,)").run.log_interval == 100);
}

TEST_CASE("auto counts as left out, whatever the key, and a warning tells the values that are used instead") {
  const Config config = parsed(R"("gradient_clipping": "auto", "bf16": {"enabled": "auto"},
      "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto", "overlap_comm": "auto"},
      "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto", "warmup_max_lr": "auto",
                    "warmup_min_lr": "auto", "warmup_num_steps": 5}},
      "optimizer": {"type": "Adam", "params": {"lr": 0.25, "betas": "auto"}}, "run": {"steps": 77},)");
  CHECK(config.optimizer.gradient_clipping == 1.0);
  CHECK(config.zero.reduce_bucket_size == 500000000);
  CHECK(!config.zero.overlap_comm);
  CHECK(config.schedule.total_num_steps == 77);
  CHECK(config.schedule.warmup_max_lr == 0.25);
  CHECK(config.schedule.warmup_min_lr == 0);
  CHECK(warned(config, "gradient_clipping = 1.0 (line 1)"));
  CHECK(warned(config, "optimizer.params.betas = [0.9,0.999] (line 5)"));
  CHECK(warned(config, "zero_optimization.overlap_comm = false (line 2)"));
  // A launcher's values: the defaults stand in here, and are named.
  const Config open = parsed(R"("optimizer": {"type": "auto", "params": {"lr": "auto"}}, "scheduler": {"type": "auto",
      "params": {"warmup_num_steps": "auto"}}, "gradient_accumulation_steps": "auto", "run": {"steps": "auto"},)");
  CHECK(open.optimizer.lr == 1e-3);
  CHECK(open.schedule.type == ScheduleType::constant);
  CHECK(open.batch.accumulation == 1);
  CHECK(open.run.steps == 1000);
  CHECK(warned(open, "optimizer.params.lr = 0.001 (line 1)"));
  CHECK(warned(open, "optimizer.type = \"AdamW\" (line 1)"));
  CHECK(warned(open, "gradient_accumulation_steps = 1 (line 2)"));
  CHECK(parsed("", {"run.resume=auto"}).run.resume == "auto");  // a text of our own sections
}

TEST_CASE("what a warning and the resolved file say of auto is what is used") {
  const Config config = parsed(R"("zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto",
      "stage3_param_persistence_threshold": "auto", "offload_param": {"device": "nvme", "nvme_path": "x",
      "max_in_cpu": "auto"}},)");
  CHECK(!config.zero.prefetch_bucket_size);
  CHECK(config.zero.param_persistence_threshold == 0);
  CHECK(warned(config, "stage3_prefetch_bucket_size = the next block, whatever its size (line 1)"));
  CHECK(warned(config, "stage3_param_persistence_threshold = 0 (line 2)"));
  CHECK(warned(config, "offload_param.max_in_cpu = 0 (line 3)"));
  const std::string resolved = resolved_json(config);
  CHECK(has(resolved, R"("stage3_prefetch_bucket_size": {"value": null, "from": "inferred"})"));
  CHECK(has(resolved, R"("stage3_param_persistence_threshold": {"value": 0, "from": "inferred"})"));
  CHECK(has(resolved, R"("max_in_cpu": {"value": 0, "from": "inferred"})"));
  CHECK(has(parse_error(R"("zero_optimization": {"stage3_prefetch_bucket_size": null},)"), "an integer of at least 0"));
}

TEST_CASE("a type that a launcher would have filled is fp32, and a warning says so") {
  const Config both = parsed(R"("bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},)");
  CHECK(both.precision.compute == DType::f32);
  CHECK(warned(both,
               "bf16.enabled = \"auto\" (ds.json:1) and fp16.enabled = \"auto\" (ds.json:1) count as left out: "
               "weights and activations are fp32"));
  const Config one = parsed(R"("bf16": {"enabled": "auto"}, "fp16": {"enabled": true},)");
  CHECK(one.precision.compute == DType::f16);
  CHECK(!warned(one, "weights and activations are fp32"));
}

TEST_CASE("an optimizer that nobody asked for is said") {
  CHECK(warned(parsed(""), "optimizer.type is not given: AdamW is used, with optimizer.params.lr = 0.001 (default)"));
  CHECK(warned(parsed("", {"optimizer.params.lr=0.5"}), "optimizer.params.lr = 0.5 (command line)"));
  CHECK(parsed(R"("optimizer": {"type": "Adam"},)").warnings.empty());
}

TEST_CASE("keys that begin with an underscore are remarks, wherever they are") {
  const Config config = parsed(R"("_comment": {"stage": 1}, "_x": "auto", "optimizer": {"type": "Adam", "_y": 1},
      "zero_optimization": {"_why": [1], "stage": 2}, "run": {"_z": null},)");
  CHECK(config.zero.stage == 2);
  CHECK(config.warnings.empty());
}

TEST_CASE("the schedule's first step may be given as the default it is") {
  for (const char* type : {"WarmupLR", "LRRangeTest"}) {
    const std::string scheduler = R"("scheduler": {"type": ")" + std::string(type) + R"(", "params": )";
    CHECK(parsed(scheduler + R"({"last_batch_iteration": -1}},)").warnings == parsed(scheduler + "{}},").warnings);
    CHECK(has(parse_error(scheduler + R"({"last_batch_iteration": 9}},)"), "run.resume"));
  }
}

TEST_CASE("keys that change no result are accepted with a warning that says why") {
  struct Case {
    const char *keys, *part;
  };
  for (const Case& c : {
           Case{R"("prescale_gradients": true,)", "prescale_gradients = true (ds.json:1) has no effect: gradients are"},
           Case{R"("prescale_gradients": true, "zero_optimization": {"stage": 3, "reduce_scatter": false},)",
                "prescale_gradients"},
           Case{R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},)",
                "grad_accum_dtype = \"fp32\" (ds.json:1) has no effect: with one microbatch"},
           Case{R"("zero_optimization": {"stage": 2, "offload_param": {"device": "nvme", "nvme_path": "x"}},)",
                "offload_param.device = \"nvme\" (ds.json:1) has no effect: below zero_optimization.stage 3"},
       }) {
    INFO(c.keys);
    const Config config = parsed(c.keys);
    CHECK(warned(config, c.part));
    CHECK(config.memory.rules.empty());
    CHECK(config.memory.nvme_path.empty());
  }
  // A feature that is on and does nothing here is one warning, not one for each of its keys.
  const Config profiled = parsed(
      R"("optimizer": {"type": "Adam"}, "flops_profiler": {"enabled": true, "detailed": false, "top_modules": 9},)");
  CHECK(profiled.warnings.size() == 1);
  CHECK(warned(profiled, "flops_profiler.enabled = true (ds.json:1) has no effect"));
  CHECK(parsed(R"("steps_per_print": 2e16,)").run.log_interval == 20000000000000000);
}

TEST_CASE("aliases are the same key") {
  const Config config = parsed(R"("bfloat16": {"enabled": true}, "zero_optimization": {"max_reuse_distance": 5},)");
  CHECK(config.precision.compute == DType::bf16);
  CHECK(config.zero.max_reuse_distance == 5);
  const Config set = parsed(R"("zero_optimization": {"max_reuse_distance": 5},)",
                            {"zero_optimization.stage3_max_reuse_distance=6", "bfloat16.enabled=true"});
  CHECK(set.zero.max_reuse_distance == 6);
  CHECK(set.precision.compute == DType::bf16);
}

TEST_CASE("Adam decouples its decay unless adam_w_mode is false, AdamW always does") {
  const auto decoupled = [](const std::string& type, const std::string& params) {
    return parsed(R"("optimizer": {"type": ")" + type + R"(", "params": {)" + params + "}},");
  };
  CHECK(adam_of(decoupled("Adam", "")).decoupled);
  CHECK(!adam_of(decoupled("adam", R"("adam_w_mode": false)")).decoupled);
  CHECK(adam_of(decoupled("ADAMW", R"("adam_w_mode": false)")).decoupled);
  CHECK(warned(decoupled("AdamW", R"("adam_w_mode": false)"), "adam_w_mode = false"));
  CHECK(!adam_of(decoupled("Adam", R"("bias_correction": false)")).bias_correction);
}

TEST_CASE("schedules carry DeepSpeed's parameters") {
  const auto schedule = [](const std::string& type, const std::string& params) {
    return parsed(R"("optimizer": {"type": "Adam", "params": {"lr": 0.5}}, "scheduler": {"type": ")" + type +
                  R"(", "params": {)" + params + "}},")
        .schedule;
  };
  const LearningRate warm = schedule("WarmupLR", R"("warmup_min_lr": [0.1], "warmup_type": "linear")");
  CHECK(warm.type == ScheduleType::warmup);
  CHECK(warm.warmup_type == WarmupType::linear);
  CHECK(warm.warmup_min_lr == 0.1);
  CHECK(warm.warmup_max_lr == 0.5);  // null: the optimizer's rate
  CHECK(warm.warmup_num_steps == 1000);
  const LearningRate decay = schedule("WarmupDecayLR", R"("total_num_steps": 9, "warmup_num_steps": 3)");
  CHECK(decay.type == ScheduleType::warmup_decay);
  CHECK(decay.warmup_max_lr == 0.001);
  CHECK(decay.total_num_steps == 9);
  const LearningRate cosine = schedule("WarmupCosineLR", R"("total_num_steps": 9, "warmup_min_ratio": 0.2)");
  CHECK(cosine.warmup_min_ratio == 0.2);
  CHECK(cosine.lr == 0.5);
}

TEST_CASE("every optimizer carries its parameters, with defaults") {
  const auto optimizer = [](const std::string& type, const std::string& params) {
    return parsed(R"("optimizer": {"type": ")" + type + R"(", "params": {)" + params + "}},").optimizer;
  };
  using namespace zrt::optimizer;
  const auto sgd = optimizer("SGD", R"("lr": 0.5, "momentum": 0.9, "nesterov": true, "weight_decay": 0.1)");
  CHECK(sgd.lr == 0.5);
  CHECK(find_params<SgdParams>(sgd.algorithm)->momentum == 0.9f);
  CHECK(find_params<SgdParams>(sgd.algorithm)->nesterov);
  CHECK(find_params<SgdParams>(sgd.algorithm)->weight_decay == 0.1f);
  CHECK(find_params<SgdParams>(optimizer("sgd", R"("momentum": 0.5, "dampening": 0.25)").algorithm)->dampening ==
        0.25f);
  const auto lion = optimizer("Lion", R"("betas": [0.95, 0.98])");
  CHECK(lion.lr == 1e-3);
  CHECK(find_params<LionParams>(lion.algorithm)->beta2 == 0.98f);
  const auto adafactor = optimizer("Adafactor", "");
  CHECK(adafactor.lr == 0);
  const AdafactorParams defaults = *find_params<AdafactorParams>(adafactor.algorithm);
  CHECK(defaults.relative_step);
  CHECK(defaults.scale_parameter);
  CHECK(!defaults.momentum);
  CHECK(defaults.eps1 == 1e-30);
  CHECK(defaults.eps2 == 1e-3);
  CHECK(defaults.clip_threshold == 1);
  CHECK(defaults.decay_rate == -0.8);
  const auto fixed = optimizer("adafactor", R"("lr": 1e-3, "relative_step": false, "beta1": 0.9, "eps": [1e-8, 0.1])");
  CHECK(fixed.lr == 1e-3);
  CHECK(find_params<AdafactorParams>(fixed.algorithm)->momentum);
  CHECK(find_params<AdafactorParams>(fixed.algorithm)->beta1 == 0.9);
  CHECK(find_params<AdafactorParams>(fixed.algorithm)->eps2 == 0.1);
}

TEST_CASE("a rate of Muon's that is left out is lr, and lr that is left out is muon_lr") {
  struct Case {
    const char* given;
    double lr, muon, adam;
  };
  for (const Case& c : {Case{R"("lr": 0.03)", 0.03, 0.03, 0.03}, Case{R"("muon_lr": 0.02)", 0.02, 0.02, 0.02},
                        Case{R"("lr": 0.03, "muon_lr": 0.02)", 0.03, 0.02, 0.03},
                        Case{R"("lr": 0.03, "adam_lr": 0.001)", 0.03, 0.03, 0.001},
                        Case{R"("muon_lr": 0.02, "adam_lr": 0.001)", 0.02, 0.02, 0.001},
                        Case{R"("lr": 0.03, "muon_lr": 0.02, "adam_lr": 0.001)", 0.03, 0.02, 0.001}}) {
    INFO(c.given);
    const auto optimizer =
        parsed(R"("optimizer": {"type": "Muon", "params": {)" + std::string(c.given) + "}},").optimizer;
    CHECK(optimizer.lr == c.lr);
    const auto rest = optimizer.algorithm->facts(0), matrices = optimizer.algorithm->facts(1);
    CHECK(rest.optimizer == std::string("AdamW"));
    CHECK(matrices.optimizer == std::string("Muon"));
    CHECK(optimizer.lr * rest.lr_scale == Approx(c.adam));
    CHECK(optimizer.lr * matrices.lr_scale == Approx(c.muon));
  }
}

TEST_CASE("one cycle and the range test carry DeepSpeed's parameters") {
  const auto config = [](const std::string& optimizer, const std::string& type, const std::string& params) {
    return parsed(R"("optimizer": {"type": ")" + optimizer + R"("}, "scheduler": {"type": ")" + type +
                  R"(", "params": {)" + params + "}},");
  };
  const std::string rates = R"("cycle_min_lr": [0.1], "cycle_max_lr": 0.2)";
  const auto cycle = config("Adam", "OneCycle", rates + R"(, "cycle_first_step_size": 7)").schedule;
  CHECK(cycle.type == ScheduleType::one_cycle);
  CHECK(cycle.one_cycle.min_lr == 0.1);
  CHECK(cycle.one_cycle.max_lr == 0.2);
  CHECK(cycle.one_cycle.second_step_size == 7);
  CHECK(cycle.one_cycle.first_stair_count == 0);
  CHECK(cycle.one_cycle.second_stair_count == 0);
  const auto stairs = config("Adam", "OneCycle", rates + R"(, "cycle_first_stair_count": 4)");
  CHECK(stairs.schedule.one_cycle.first_stair_count == 4);
  CHECK(stairs.schedule.one_cycle.second_stair_count == 4);
  CHECK(stairs.warnings.empty());
  const std::string both = rates + R"(, "cycle_first_stair_count": 4, "cycle_second_stair_count": 0)";
  CHECK(config("Adam", "OneCycle", both).schedule.one_cycle.second_stair_count == 0);
  CHECK(cycle.one_cycle.momentum);
  CHECK(cycle.one_cycle.max_mom == 0.9);
  const Config sgd = config("SGD", "OneCycle", rates);
  CHECK(!sgd.schedule.one_cycle.momentum);
  CHECK(warned(sgd, "cycle_momentum"));
  const auto range = config("Adam", "LRRangeTest", R"("lr_range_test_min_lr": 0.5, "lr_range_test_staircase": true)");
  CHECK(range.schedule.type == ScheduleType::lr_range_test);
  CHECK(range.schedule.range_test.min_lr == 0.5);
  CHECK(range.schedule.range_test.step_size == 2000);
  CHECK(range.schedule.range_test.staircase);
}

TEST_CASE("fp16 carries DeepSpeed's loss scale, dynamic unless one is given") {
  const auto precision = [](const std::string& more) {
    return parsed(R"("fp16": {"enabled": true)" + more + "},").precision;
  };
  const auto dynamic = precision("");
  CHECK(dynamic.compute == DType::f16);
  CHECK(dynamic.local_grad == DType::f16);
  CHECK(dynamic.loss_scale.dynamic);
  CHECK(dynamic.loss_scale.initial == 65536);
  CHECK(dynamic.loss_scale.window == 1000);
  CHECK(dynamic.loss_scale.hysteresis == 2);
  CHECK(dynamic.loss_scale.minimum == 1);
  CHECK(!dynamic.loss_scale.consecutive);
  const auto other = precision(R"(, "initial_scale_power": 4, "loss_scale_window": 5, "hysteresis": 3,
      "consecutive_hysteresis": true, "min_loss_scale": 2)");
  CHECK(other.loss_scale.initial == 16);
  CHECK(other.loss_scale.window == 5);
  CHECK(other.loss_scale.hysteresis == 3);
  CHECK(other.loss_scale.consecutive);
  CHECK(other.loss_scale.minimum == 2);
  // 0 is no scale: the least one stands for it.
  CHECK(precision(R"(, "min_loss_scale": 0)").loss_scale.minimum == zrt::optimizer::least_loss_scale);
  const auto small = precision(R"(, "min_loss_scale": 0, "initial_scale_power": -3)");
  CHECK(small.loss_scale.initial == 0.125);
  const auto fixed = precision(R"(, "loss_scale": 128)");
  CHECK(!fixed.loss_scale.dynamic);
  CHECK(fixed.loss_scale.initial == 128);
  CHECK(!parsed(R"("bf16": {"enabled": true},)").precision.loss_scale.dynamic);
  CHECK(parsed("").precision.loss_scale.initial == 1);
}

TEST_CASE("gradient types follow accumulation, reduce_every and communication_data_type") {
  struct Case {
    int accumulation, reduce_every;
    std::string wire;         // "own": the name of the weights' type
    bool local, accumulated;  // are of the weights' type, where that is not fp32
  };
  const std::vector<Case> cases{{1, 1, "null", true, true},   {4, 1, "null", true, false},
                                {4, 2, "null", false, false}, {4, 4, "fp32", false, false},
                                {4, 1, "FP32", false, false}, {1, 1, "fp32", false, false},
                                {1, 1, "own", true, true},    {4, 1, "own", true, false}};
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const std::string name(zrt::core::dtype_name(type));
    for (const Case& c : cases) {
      INFO(name << " " << c.accumulation << " " << c.reduce_every << " " << c.wire);
      const std::string wire = c.wire == "null" ? c.wire : "\"" + (c.wire == "own" ? name : c.wire) + "\"";
      const Config config = parsed((type == DType::f32 ? "" : "\"" + name + R"(": {"enabled": true}, )") +
                                   R"("communication_data_type": )" + wire + R"(, "gradient_accumulation_steps": )" +
                                   std::to_string(c.accumulation) + R"(, "parallel": {"reduce_every": )" +
                                   std::to_string(c.reduce_every) + "},");
      CHECK(config.precision.compute == type);
      CHECK(config.precision.local_grad == (c.local ? type : DType::f32));
      CHECK(config.precision.accumulated_grad == (c.accumulated ? type : DType::f32));
    }
  }
}

TEST_CASE("reduce_every is the whole step at stages 0 and 1, and one microbatch at stages 2 and 3") {
  for (int stage = 0; stage < 4; ++stage) {
    const Config config =
        parsed(R"("gradient_accumulation_steps": 6, "zero_optimization": {"stage": )" + std::to_string(stage) + "},");
    CHECK(config.parallel.reduce_every == (stage <= 1 ? 6 : 1));
    CHECK(config.zero.overlap_comm == (stage == 3));
  }
  CHECK(!parsed(R"("zero_optimization": {"stage": 3, "overlap_comm": false},)").zero.overlap_comm);
}

TEST_CASE("presets fill the sizes that are not given") {
  for (const std::string& name : zrt::models::preset_names()) {
    INFO(name);
    const auto [spec, preset] = zrt::models::find_preset(name);
    const Config config = parsed("", {"model.preset=" + name});
    CHECK(config.model.type == spec->type);
    CHECK(config.model.preset == name);
    CHECK(config.model.tied == (preset->keys.contains("tied") || spec->tied));
    for (const auto& [key, value] : preset->keys) CHECK(in_force(config, "model." + key) == value);
    const zrt::models::Model model = config.model.make();
    CHECK(model.type == spec->type);
    CHECK(model.layers == config.model.layers);
    CHECK(model.vocab == config.model.vocab);
  }
  const Config config = parsed(R"("run": {"steps": 1},)", {"model.sequence=16"});
  CHECK(config.model.sequence == 16);
  CHECK(config.model.hidden == 64);
  const Config won = parse_config(
      R"({"train_batch_size": 1, "model": {"layers": 9, "hidden": 8, "heads": 2, "sequence": 4, "vocab": 5}})", "c",
      {"model.preset=gpt2-10m", "model.heads=12"}, 1);
  CHECK(won.model.layers == 6);
  CHECK(won.model.heads == 12);
  CHECK(warned(won, "model.layers = 9"));
}

TEST_CASE(
    "tensor-parallel ranks share rows by either name of the key; one rank has nobody to share with, and says so") {
  const std::string file =
      R"({"train_batch_size": 2, "model": {"layers": 1, "hidden": 8, "heads": 2, "sequence": 4, "vocab": 5}})";
  for (const char* name : {"parallel.sequence=true", "parallel.sequence_parallel=true",
                           "activation_checkpointing.partition_activations=true"}) {
    const Config shared = parse_config(file, "c", {"parallel.tensor=2", name}, 2);
    CHECK(shared.model.degrees.sequence_parallel);
    CHECK(shared.model.make().blocks[1]->params().front().summed);
    const Config alone = parse_config(file, "c", {name}, 2);
    CHECK_FALSE(alone.model.degrees.sequence_parallel);
    CHECK(warned(alone,
                 std::string(name).starts_with("parallel") ? "parallel.sequence = true" : "partition_activations"));
  }
}

TEST_CASE("a Llama takes its own keys, and what is left open is as the paper has it") {
  const auto llama = [](const std::string& more) {
    return parse_config(R"({"train_batch_size": 1, "model": {"type": "llama", "layers": 2, "hidden": 64, "heads": 4,
        "sequence": 8, "vocab": 9)" +
                            more + "}}",
                        "c", {}, 1);
  };
  const Config plain = llama("");
  CHECK(plain.model.type == "llama");
  CHECK(in_force(plain, "model.kv_heads") == 4);
  CHECK(in_force(plain, "model.ffn") == 256);
  CHECK(in_force(plain, "model.rope_theta") == 10000);
  CHECK(in_force(plain, "model.rms_norm_eps") == 1e-5);
  CHECK(in_force(plain, "model.rope_scaling.rope_type") == "default");
  CHECK(in_force(plain, "model.rope_scaling.factor").is_null());
  CHECK(!plain.model.tied);
  const Config given = llama(R"(, "kv_heads": 2, "ffn": 100, "rope_theta": 5e5, "rms_norm_eps": 1e-6, "tied": true,
      "rope_scaling": {"rope_type": "llama3", "factor": 32, "original_max_position_embeddings": 4096})");
  CHECK(in_force(given, "model.kv_heads") == 2);
  CHECK(in_force(given, "model.ffn") == 100);
  CHECK(in_force(given, "model.rope_theta") == 500000);
  CHECK(in_force(given, "model.rms_norm_eps") == 1e-6);
  CHECK(given.model.tied);
  CHECK(in_force(given, "model.rope_scaling.factor") == 32);
  CHECK(in_force(given, "model.rope_scaling.low_freq_factor") == 1);
  CHECK(in_force(given, "model.rope_scaling.high_freq_factor") == 4);
  CHECK(in_force(given, "model.rope_scaling.original_max_position_embeddings") == 4096);
  CHECK(in_force(llama(R"(, "rope_scaling": null)"), "model.rope_scaling.rope_type") == "default");
  // Of a layer: two gains, queries and output, keys and values, and three matrices of the MLP.
  const int64_t layer = 2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 100 * 64;
  CHECK(given.model.make().parameters() == 9 * 64 + 2 * layer + 64);
}

TEST_CASE("a preset on the command line replaces a model of another type") {
  const std::string file = R"({"train_batch_size": 1, "model": {"type": "llama", "layers": 2, "hidden": 64, "heads": 4,
      "kv_heads": 2, "sequence": 8, "vocab": 9, "rope_scaling": {"rope_type": "llama3"}}})";
  const Config gpt2 = parse_config(file, "c", {"model.preset=gpt2-10m"}, 1);
  CHECK(gpt2.model.type == "gpt2");
  CHECK(gpt2.model.hidden == 384);
  CHECK(gpt2.model.tied);
  CHECK(warned(gpt2, "model.type = \"llama\""));
  CHECK(warned(gpt2, "model.kv_heads = 2"));
  const Config llama = parse_config(file, "c", {"model.preset=llama-10m"}, 1);
  CHECK(in_force(llama, "model.ffn") == 1024);
  CHECK(in_force(llama, "model.rope_scaling.rope_type") == "default");
}

TEST_CASE("an override sets any key, creates sections and comes from the command line") {
  const Config config =
      parsed(R"("zero_optimization": {"stage": 1},)",
             {"zero_optimization.stage=2", "zero_optimization.stage=3", "run.out=runs/a b=c", "run.name=2024",
              "data.train=[[1, \"x\"]]", "data.validation=corpus/held", "optimizer.params.betas=[0.5, 0.6]",
              "bf16={\"enabled\": true}", "steps_per_print=null"});
  CHECK(config.zero.stage == 3);
  CHECK(config.run.out == "runs/a b=c");
  CHECK(config.run.name == "2024");
  CHECK(config.data.train[0].prefix == "x");
  CHECK(config.data.validation.at(0).prefix == "corpus/held");
  CHECK(adam_of(config).beta1 == 0.5f);
  CHECK(config.precision.compute == DType::bf16);
  for (const char* prefix : {"corpus/train", "123", "1.5", "true", "a[b]"}) {
    INFO(prefix);
    CHECK(parsed("", {std::string("data.train=") + prefix}).data.train[0].prefix == prefix);
  }
  CHECK(parsed("", {"data.train=\"[a]/x\""}).data.train[0].prefix == "[a]/x");
}

TEST_CASE("switched-off features of other tools are accepted without a word") {
  const Config config = parsed(R"("fp16": {"enabled": false, "loss_scale": 0, "initial_scale_power": 32},
      "tensorboard": {"enabled": false, "output_path": "logs"}, "wandb": null,
      "zero_optimization": {"offload_param": null, "offload_optimizer": {"device": "none", "pin_memory": false},
                            "zenflow": null}, "amp": {"enabled": "auto", "opt_level": "O1"},
      "compression_training": {"weight_quantization": {"shared_parameters": {"enabled": false, "x": 1},
        "different_groups": {"wq1": {"params": {"start_bits": 8}, "modules": ["*"]}}},
        "row_pruning": {"shared_parameters": {"enabled": false}}, "layer_reduction": {"enabled": false, "keep": 5}},
      "autotuning": {"enabled": false, "fast": false}, "optimizer": {"type": "Adam"},
      "data_efficiency": {"enabled": false, "data_sampling": {"enabled": true}},)");
  CHECK(config.warnings.empty());
}

TEST_CASE("held-out data is a prefix or a list of prefixes with or without a language") {
  const auto list = parsed("", {R"(data.validation=["a", ["b"], ["c", "pt-br"]])"}).data.validation;
  REQUIRE(list.size() == 3);
  CHECK((list[0].prefix == "a" && list[1].prefix == "b" && list[2].prefix == "c"));
  CHECK((list[1].language.empty() && list[2].language == "pt-br"));
  for (const char* bad : {"[]", "[3]", R"([["a", "b", "c"]])", R"([[1, "a"]])", R"([""])", "[[]]", R"([{"a": 1}])"}) {
    INFO(bad);
    CHECK_THROWS_AS(parsed("", {std::string("data.validation=") + bad}), zrt::core::ConfigError);
  }
}

TEST_CASE("data.split makes of each training dataset a held-out one, too") {
  const std::string train = R"(data.train=[[3, "a", "de"], [1, "b"]])";
  const auto data = parsed("", {train, "data.split=969,30,1", "run.eval_interval=5"});
  for (const std::string& warning : data.warnings) CHECK(warning.find("nothing is held out") == std::string::npos);
  REQUIRE((data.data.train.size() == 2 && data.data.validation.size() == 2));
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const DataSource &of_train = data.data.train[i], &held = data.data.validation[i];
    CHECK((of_train.split == "969,30,1" && of_train.part == 0));
    CHECK((held.split == "969,30,1" && held.part == 1 && held.weight == 1));
    CHECK((held.prefix == of_train.prefix && held.language == of_train.language));
  }
  CHECK(data.data.train[0].weight == 3);
  CHECK(parsed("", {"data.train=a", "data.split=0.05"}).data.validation.at(0).split == "0.950000000,0.050000000");
  CHECK(parsed(R"("data": {"train": "a", "split": 0.25},)").data.train.at(0).split == "0.750000000,0.250000000");
  CHECK(parsed(R"("data": {"train": "a", "split": "9,1"},)").data.train.at(0).split == "9,1");
  CHECK(parsed(R"("data": {"train": "a", "split": "0.5"},)").data.train.at(0).split == "0.500000000,0.500000000");
  CHECK(parsed("", {"data.train=a"}).data.train.at(0).split.empty());
  for (const char* bad :
       {"1", "0", "-0.1", "1.5", "100,0,0", "0,1", "1,2,3,4", "1,,2", "9,1,", "a,b", "nan,1", "9;1", "\"\""}) {
    INFO(bad);
    CHECK_THROWS_AS(parsed("", {"data.train=a", std::string("data.split=") + bad}), zrt::core::ConfigError);
  }
}

TEST_CASE("a run on a GPU may name a kernel file") {
  CHECK(parsed(R"("run": {"device": "cuda", "kernel_table": "t.json"},)").run.kernel_table == "t.json");
  CHECK(parsed("").run.kernel_table.empty());
}

}  // namespace zrt::config_load_test

// A file of keys becomes structs: values, defaults, the words that count as left out, overrides, and data.
#include <nlohmann/json.hpp>

#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_load_test {

using namespace zrt::runtime;
using zrt::core::DType;
using zrt::optimizer::ScheduleType;

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

TEST_CASE("data.documents is of all datasets, of those that data.split makes, too") {
  using data::DocumentUse;
  for (const DocumentUse use : {DocumentUse::joined, DocumentUse::alone, DocumentUse::separate}) {
    const std::string key = std::string("data.documents=") + data::name_of(use);
    const auto split = parsed("", {"data.train=a", "data.split=0.5", key}).data;
    CHECK(split.documents == use);
    const auto two = parsed("", {R"(data.train=[[1, "a"], [2, "b"]])", "data.validation=c", key}).data;
    CHECK(two.documents == use);
    CHECK(parsed("", {key}).data.documents == use);
  }
  CHECK(parsed("", {"data.train=a"}).data.documents == DocumentUse::joined);
  CHECK_THROWS_AS(parsed("", {"data.train=a", "data.documents=each"}), zrt::core::ConfigError);
  for (const char* use : {"alone", "separate"})
    CHECK_THROWS_AS(parsed("", {"data.train=a", std::string("data.documents=") + use, "model.preset=bert-tiny"}),
                    zrt::core::ConfigError);
}

TEST_CASE("a run on a GPU may name a kernel file") {
  CHECK(parsed(R"("run": {"device": "cuda", "kernel_table": "t.json"},)").run.kernel_table == "t.json");
  CHECK(parsed("").run.kernel_table.empty());
}

}  // namespace zrt::config_load_test

#include <nlohmann/json.hpp>

#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_refuse_test {

using namespace zrt::runtime;

TEST_CASE("an unknown key is refused with its place and the nearest spelling") {
  check_all({
      {R"("zero_optimization": {
 "stge": 1},)",
       {"ds.json:2", "unknown key 'zero_optimization.stge' = 1", "'zero_optimization.stage'"}},
      {R"("zero_optimisation": {"stage": 1},)", {"unknown key 'zero_optimisation'", "'zero_optimization'"}},
      {R"("run": {"step": 1},)", {"run.step", "'run.steps'"}},
      {R"("modle": {},)", {"'modle'", "'model'"}},
      {R"("zero_optimization": {"aio": {}},)", {"zero_optimization.aio", "Did you mean 'aio'?"}},
      {R"("stage": 3,)", {"'stage'", "Did you mean 'zero_optimization.stage'?"}},
      {R"("tensor_model_parallel_size": 2,)", {"Did you mean 'parallel.tensor'?"}},
      {R"("sequence_parallel_size": 2,)", {"sequence_parallel_size", "parallel.sequence"}},
      {R"("data": {"blend": 1},)", {"'data.blend'", "Known keys there: train, validation, split, documents."}},
      {R"("optimizer": {"type": "Adam", "params": {"learning_rate": 1}},)", {"optimizer.params.learning_rate"}},
      {R"("optimizer": {"type": "Adam", "params": {"beta": [0.9, 0.9]}},)", {"'optimizer.params.betas'"}},
      {R"("bf16": {"loss_scale": 0},)", {"bf16.loss_scale"}},
      {R"("fp8": {"format": "e4m3"},)", {"'fp8.format'", "enabled"}},
      {R"("bf16": {"loss_scael": "auto"},)", {"bf16.loss_scael"}},
      {R"("tensor_parallel": {"tp": {"tp_siz": 1}},)", {"'tensor_parallel.tp.tp_size'"}},
      {R"("scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 5}},)",
       {"scheduler.params.total_num_steps", "Only these types read it: WarmupDecayLR, WarmupCosineLR."}},
  });
  const std::string error = parse_error("", {"zero_optimization.stag=1"});
  CHECK(has(error, "--set zero_optimization.stag: unknown key 'zero_optimization.stag'"));
}

TEST_CASE("a name that leaves the folder which it names a place in is refused") {
  for (const std::string section : {"tensorboard", "csv_monitor"}) {
    for (const char* name : {"../x", "..", "a/../../x", "/x"}) {
      const std::string error = parse_error("\"" + section + R"(": {"enabled": true, "job_name": ")" + name + "\"},");
      CHECK(has(error, section + ".job_name = \"" + name + "\" (ds.json:1)"));
      CHECK(has(error, "leaves output_path"));
      CHECK(has(error, "Try " + section + ".output_path"));
    }
    for (const char* name : {"x", "team/x", "..x", "x..", ".x"}) {
      CHECK_NOTHROW(parsed("\"" + section + R"(": {"enabled": true, "job_name": ")" + name + "\"},"));
    }
    for (const char* name : {"", ".", "./", "x/", "x/.", "./x"}) {
      const std::string error = parse_error("\"" + section + R"(": {"enabled": true, "job_name": ")" + name + "\"},");
      CHECK(has(error, section + ".job_name = \"" + name + "\" (ds.json:1)"));
      CHECK(has(error, "names no folder"));
      CHECK_NOTHROW(parsed("\"" + section + R"(": {"job_name": ")" + name + "\"},"));  // not enabled
    }
  }
  for (const char* name : {"../x", "a/b", ""}) {
    CHECK(has(parse_error(R"("run": {"name": ")" + std::string(name) + "\"},"), "must be a file name"));
  }
}

TEST_CASE("a value of the wrong type is refused with the type that is legal") {
  check_all({
      {R"("zero_optimization": {"stage": "three"},)",
       {"zero_optimization.stage = \"three\" (ds.json:1)", "an integer"}},
      {R"("zero_optimization": [1],)", {"zero_optimization = [1]", "an object"}},
      {R"("zero_optimization": {"offload_param": "cpu"},)", {"zero_optimization.offload_param = \"cpu\"", "or null"}},
      {R"("zero_optimization": {"offload_optimizer": false},)", {"zero_optimization.offload_optimizer = false"}},
      {R"("train_batch_size": "8",)", {"train_batch_size = \"8\"", "an integer from 1 to 1099511627776 or null"}},
      {R"("train_batch_size": 8.5,)", {"train_batch_size = 8.5"}},
      {R"("gradient_clipping": null,)", {"gradient_clipping = null", "a number"}},
      {R"("optimizer": "Adam",)", {"optimizer = \"Adam\"", "an object"}},
      {R"("optimizer": {"type": 5},)", {"optimizer.type = 5", "\"AdamW\""}},
      {R"("scheduler": {"type": ["WarmupLR"]},)", {"scheduler.type"}},
      {R"("scheduler": {"type": null, "params": 5},)", {"scheduler.params = 5"}},
      {R"("run": {"out": 5},)", {"run.out = 5", "a string or null"}},
      {R"("run": {"out": ""},)", {R"(run.out = "")", "names no folder"}},
      {R"("gradient_clipping": 1e-45,)", {"gradient_clipping = 1e-45", "no weight would move"}},
      {R"("run": {"save_weights": "yes"},)", {"run.save_weights = \"yes\"", "true or false"}},
      {R"("data": {"train": {"a": 1}},)", {"data.train", "a string, a list or null"}},
      {R"("data": {"train": "a", "split": "9"},)", {"data.split = \"9\"", "two or three weights", "969,30,1"}},
      {R"("data": {"train": "a", "validation": "b", "split": 0.1},)", {"data.split", "Leave one of them out"}},
      {R"("data": {"split": 0.1},)", {"data.split", "data.train, which is not set"}},
      {R"("run": 5,)", {"run = 5", "an object"}},
  });
  CHECK(has(error_of([] { parse_config("[1]", "ds.json", {}, 1); }), "ds.json holds [1]"));
}

TEST_CASE("a value out of range is refused with the range") {
  check_all({
      {R"("zero_optimization": {"stage": 4},)", {"zero_optimization.stage = 4 (ds.json:1)", "0 to 3"}},
      {R"("zero_optimization": {"stage": -1},)", {"zero_optimization.stage = -1"}},
      {R"("gradient_clipping": -0.5,)", {"gradient_clipping = -0.5", "at least 0"}},
      {R"("optimizer": {"type": "Adam", "params": {"lr": -1}},)", {"optimizer.params.lr = -1"}},
      {R"("optimizer": {"type": "Adam", "params": {"betas": [0.9, 1]}},)", {"optimizer.params.betas = [0.9,1]"}},
      {R"("optimizer": {"type": "Adam", "params": {"betas": [0.9]}},)", {"optimizer.params.betas = [0.9]"}},
      {R"("optimizer": {"type": "Adam", "params": {"betas": [0.9, "a"]}},)", {"optimizer.params.betas"}},
      {R"("optimizer": {"type": "Adam", "params": {"eps": -1e-8}},)", {"optimizer.params.eps = -1e-08"}},
      {R"("optimizer": {"type": "Adam", "params": {"weight_decay": -1}},)", {"optimizer.params.weight_decay"}},
      {R"("fp16": {"enabled": true, "loss_scale": -1},)", {"fp16.loss_scale = -1"}},
      {R"("fp16": {"enabled": true, "loss_scale_window": 0},)", {"fp16.loss_scale_window = 0", "at least 1"}},
      {R"("fp16": {"enabled": true, "hysteresis": 0},)", {"fp16.hysteresis = 0"}},
      {R"("fp16": {"enabled": true, "min_loss_scale": -1},)", {"fp16.min_loss_scale = -1", "0 to"}},
      {R"("fp16": {"enabled": true, "loss_scale": 1e-40},)", {"fp16.loss_scale = 1e-40", "vanish", "6.103515625e-05"}},
      {R"("fp16": {"enabled": true, "initial_scale_power": 128},)", {"fp16.initial_scale_power = 128", "-14 to 127"}},
      {R"("fp16": {"enabled": true, "initial_scale_power": -3},)", {"min_loss_scale = 1", "0.125", "0 is the least"}},
      {R"("optimizer": {"type": "Lion", "params": {"betas": [0.9, 2]}},)", {"optimizer.params.betas = [0.9,2]"}},
      {R"("optimizer": {"type": "SGD", "params": {"momentum": -1}},)", {"optimizer.params.momentum = -1"}},
      {R"("optimizer": {"type": "Adafactor", "params": {"eps": [1e-30]}},)", {"optimizer.params.eps", "2 numbers"}},
      {R"("scheduler": {"type": "LRRangeTest", "params": {"lr_range_test_step_size": 0}},)",
       {"lr_range_test_step_size = 0"}},
      {R"("scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 0.2, "cycle_max_mom": 1}},)",
       {"cycle_max_mom = 1", "below 1"}},
      {R"("run": {"steps": 0},)", {"run.steps = 0", "1 to"}},
      {R"("run": {"seed": -1},)", {"run.seed = -1", "at least 0"}},
      {R"("run": {"threads_per_rank": 0},)", {"run.threads_per_rank = 0"}},
      {R"("run": {"stress_seed": -1},)", {"run.stress_seed = -1", "at least 0"}},
      {R"("run": {"timeout_seconds": 0},)", {"run.timeout_seconds = 0"}},
      {R"("run": {"eval_batches": 0},)", {"run.eval_batches = 0"}},
      {R"("run": {"name": "a/b"},)", {"run.name = \"a/b\""}},
      {R"("run": {"kernel_table": "t.json"},)", {"run.kernel_table = \"t.json\"", "run.device = \"cuda\""}},
      {R"("run": {"kernel_table": 5, "device": "cuda"},)", {"run.kernel_table = 5", "a string or null"}},
      {R"("memory": {"unit_bytes": 0},)", {"memory.unit_bytes = 0"}},
      {R"("memory": {"device_budget_bytes": 0},)", {"memory.device_budget_bytes = 0"}},
      {R"("data": {"train": []},)", {"data.train = []"}},
      {R"("data": {"train": [[0, "x"]]},)", {"data.train", "[0,\"x\"]", "weight above 0"}},
      {R"("data": {"train": ["x"]},)", {"data.train", "legal entries"}},
      {R"("scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": -1}},)", {"warmup_num_steps = -1"}},
      {R"("scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 0.2, "cycle_first_stair_count": -1}},)",
       {"cycle_first_stair_count = -1", "0 to"}},
      {R"("scheduler": {"type": "WarmupLR", "params": {"warmup_type": "cubic"}},)", {"warmup_type = \"cubic\""}},
      {R"("scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": [0, 1]}},)", {"warmup_min_lr = [0,1]"}},
      {R"("scheduler": {"type": "warmup_stable_decay"},)", {"scheduler.params.num_decay_steps is missing", "tenth"}},
      {R"("scheduler": {"type": "warmup_stable_decay", "params": {"num_decay_steps": 1001}},)",
       {"num_decay_steps = 1001", "num_training_steps = 1000"}},
      {R"("scheduler": {"type": "warmup_stable_decay", "params": {"num_warmup_steps": 10, "num_decay_steps": 20,
          "num_stable_steps": 71, "num_training_steps": 100}},)",
       {"num_stable_steps = 71", "contradicts scheduler.params.num_training_steps = 100", "leaves 70 steps"}},
      {R"("scheduler": {"type": "cosine_with_min_lr"},)", {"min_lr", "both left out"}},
      {R"("scheduler": {"type": "cosine_with_min_lr", "params": {"min_lr": 1e-5, "min_lr_rate": 0.1}},)",
       {"min_lr", "both given"}},
      {R"("scheduler": {"type": "cosine_with_min_lr", "params": {"min_lr": 1}},)", {"min_lr = 1", "above"}},
      {R"("scheduler": {"type": "polynomial", "params": {"lr_end": 1}},)", {"lr_end = 1", "must be below"}},
      {R"("scheduler": {"type": "linear", "params": {"total_num_steps": 5}},)",
       {"scheduler.params.total_num_steps", "Only these types read it: WarmupDecayLR, WarmupCosineLR."}},
      {R"("scheduler": {"params": {"a": 1}},)", {"scheduler.params", "without scheduler.type"}},
  });
}

TEST_CASE("model sizes that contradict are refused") {
  const auto model_error = [](const std::string& model) {
    return error_of([&] { parse_config(R"({"train_batch_size": 1, "model": )" + model + "}", "ds.json", {}, 1); });
  };
  const auto sizes = [](int64_t hidden, int64_t heads, int64_t sequence, int64_t vocab, const std::string& more) {
    return nlohmann::json(
               {{"layers", 2}, {"hidden", hidden}, {"heads", heads}, {"sequence", sequence}, {"vocab", vocab}})
        .dump()
        .insert(1, more);
  };
  const std::string heads = model_error(sizes(64, 3, 8, 9, ""));
  CHECK(has(heads, "model.heads = 3 (ds.json:1)"));
  CHECK(has(heads, "model.hidden = 64"));
  CHECK(has(model_error(sizes(64, 2, 1, 9, "")), "model.sequence = 1"));
  CHECK(has(model_error(sizes(64, 2, 8, 0, "")), "model.vocab = 0"));
  CHECK(has(model_error(sizes(64, 2, 8, int64_t{1} << 31, "")), "model.vocab = 2147483648"));
  CHECK(has(model_error(sizes(0, 2, 8, 9, "")), "model.hidden = 0"));
  CHECK(has(model_error(sizes(64, 2, 8, 9, R"("dropout": 1,)")), "model.dropout = 1"));
  CHECK(has(model_error(sizes(64, 2, 8, 9, R"("dropout": -0.1,)")), "model.dropout = -0.1"));
  CHECK(has(model_error(sizes(64, 2, 8, 9, R"("type": "t5",)")), "model.type = \"t5\""));
  CHECK(has(model_error(R"({"layers": 2, "heads": 2})"), "model.hidden, model.sequence, model.vocab"));
  CHECK(has(model_error(R"({"preset": "gpt2-124"})"), "Did you mean gpt2-124m?"));
  CHECK(has(model_error(R"(null)"), "gpt2-1.5b"));

  const auto llama = [&](const std::string& more) {
    return model_error(sizes(64, 4, 8, 9, R"("type": "llama",)" + more));
  };
  CHECK(has(llama(R"("kv_heads": 3,)"), "model.kv_heads = 3 (ds.json:1) does not divide model.heads = 4"));
  CHECK(has(llama(R"("ffn": 0,)"), "model.ffn = 0"));
  CHECK(has(llama(R"("head_dim": 7,)"), "model.head_dim = 7 (ds.json:1) makes heads of so many elements"));
  const std::string odd = sizes(64, 3, 8, 9, R"("type": "llama", "head_dim": 16,)");
  CHECK_NOTHROW(parse_config(R"({"train_batch_size": 1, "model": )" + odd + "}", "ds.json", {}, 1));
  CHECK(has(llama(R"("dropout": 0.1,)"), "has no dropout"));
  CHECK(has(llama(R"("rope_theta": 1,)"), "model.rope_theta = 1"));
  CHECK(has(llama(R"("rms_norm_eps": 0,)"), "model.rms_norm_eps = 0"));
  CHECK(has(llama(R"("rope_scaling": {"rope_type": "longrope"},)"), "\"llama3\""));
  CHECK(has(llama(R"("rope_scaling": {"factor": 8},)"), "model.rope_scaling.factor = 8"));
  CHECK(has(llama(R"("rope_scaling": {"rope_type": "llama3", "low_freq_factor": 4},)"), "high_freq_factor"));
  const auto yarn = [&](const std::string& more) {
    return llama(R"("rope_scaling": {"rope_type": "yarn", )" + more + "},");
  };
  CHECK(has(llama(R"("rope_scaling": {"rope_type": "linear", "beta_fast": 2},)"), "rope_type = \"yarn\". Set it"));
  CHECK(has(llama(R"("rope_scaling": {"rope_type": "linear", "original_max_position_embeddings": 2},)"),
            "rope_type = \"llama3\" or \"dynamic\" or \"yarn\""));
  CHECK(has(yarn(R"("beta_fast": 0.5)"), "beta_fast = 0.5 (ds.json:1) must not be below beta_slow = 1"));
  CHECK(
      has(yarn(R"("mscale": 2)"), "mscale = 2.0 (ds.json:1) has no effect without model.rope_scaling.mscale_all_dim"));
  CHECK(has(yarn(R"("mscale_all_dim": 2)"), "has no effect without model.rope_scaling.mscale"));
  CHECK(has(yarn(R"("mscale": 2, "mscale_all_dim": 1, "attention_factor": 1)"), "attention_factor"));
  CHECK(has(yarn(R"("attention_factor": 0)"), "attention_factor = 0"));
  CHECK(has(model_error(sizes(64, 64, 8, 9, R"("type": "llama",)")), "heads of 1 elements"));
  for (const char* key : {R"("kv_heads": 2)", R"("head_dim": 8)", R"("ffn": 9)", R"("rope_theta": 1e4)",
                          R"("rms_norm_eps": 1e-5)", R"("rope_scaling": {"rope_type": "default"})"}) {
    CHECK(has(model_error(sizes(64, 4, 8, 9, std::string(key) + ",")), "belongs to model.type = \"llama\""));
  }
  // The message names all types that have the key.
  CHECK(has(model_error(sizes(64, 4, 8, 9, R"("kv_heads": 2,)")),
            R"(model.type = "llama" or "qwen2" or "qwen3" or "phi3")"));
  CHECK(has(model_error(R"({"preset": "llama-tiny", "type": "gpt2"})"), "contradicts model.preset = \"llama-tiny\""));
}

TEST_CASE("a tensor degree that does not divide the heads is refused with those that do") {
  const auto refused = [](const std::string& keys) {
    return parse_error(keys + R"("parallel": {"tensor": 3},)", {}, 3);
  };
  CHECK(has(refused(R"("model": {"preset": "gpt2-tiny"},)"), "model.heads = 2"));
  CHECK(has(refused(R"("model": {"preset": "gpt2-tiny"},)"), "Legal are 1, 2."));
  CHECK(has(parse_error(R"("tensor_parallel": {"autotp_size": 2}, "parallel": {"tensor": 4},)", {}, 4), "contradicts"));
}

TEST_CASE("requests that are not supported are refused by name") {
  check_all({
      {R"("fp16": {"enabled": true, "auto_cast": true},)", {"fp16.auto_cast = true (ds.json:1)", "legal: false"}},
      {R"("fp16": {"enabled": true, "fp16_master_weights_and_grads": true},)", {"fp16_master_weights_and_grads"}},
      {R"("zero_optimization": {"zero_hpz_partition_size": 8},)", {"zero_hpz_partition_size = 8", "must divide the"}},
      {R"("zero_optimization": {"mics_shard_size": 2},)", {"mics_shard_size = 2"}},
      {R"("zero_optimization": {"zero_quantized_weights": true},)", {"zero_quantized_weights"}},
      {R"("zero_optimization": {"zenflow": {}},)", {"zero_optimization.zenflow"}},
      {R"("zero_optimization": {"grad_hooks": true},)", {"zero_optimization.grad_hooks", "never accepted"}},
      {R"("parallel": {"tensor": 3},)", {"parallel.tensor = 3"}},
      {R"("parallel": {"pipeline": 2},)", {"parallel.pipeline = 2", "multiple of 2"}},
      {R"("parallel": {"schedule": "zb-h2"},)", {"parallel.schedule = \"zb-h2\"", "zb-h1"}},
      {R"("tensor_parallel": {"autotp_size": 4},)", {"parallel.tensor = 4"}},
      {R"("prescale_gradients": true, "zero_optimization": {"stage": 2},)",
       {"prescale_gradients = true", "reduce_scatter", "as in DeepSpeed"}},
      {R"("gradient_predivide_factor": 2,)", {"gradient_predivide_factor = 2"}},
      {R"("gradient_allreduce_op": "sum",)", {"gradient_allreduce_op = \"sum\"", "mean"}},
      {R"("amp": {"enabled": true},)", {"amp.enabled = true"}},
      {R"("torch_autocast": {"enabled": true},)", {"torch_autocast.enabled"}},
      {R"("elasticity": {"enabled": true},)", {"elasticity.enabled"}},
      {R"("tensorboard": {"enabled": true, "log_dir": "x"},)", {"tensorboard.log_dir"}},
      {R"("run": {"trace_steps": 5},)", {"run.trace_steps", "5", "list"}},
      {R"("run": {"trace_steps": [3, 2]},)", {"run.trace_steps", "[100, 103]"}},
      {R"("run": {"trace_steps": [0, 2]},)", {"run.trace_steps", "[100, 103]"}},
      {R"("run": {"trace_steps": [1, "x"]},)", {"run.trace_steps", "[100, 103]"}},
      {R"("curriculum_learning": {"enabled": true},)", {"curriculum_learning.enabled"}},
      {R"("compression_training": {"row_pruning": {"shared_parameters": {"enabled": true}}},)",
       {"compression_training.row_pruning"}},
      {R"("sparse_attention": {"mode": "bigbird"},)", {"sparse_attention.mode = \"bigbird\"", "bslongformer"}},
      {R"("sparse_attention": {"num_random_blocks": 2},)", {"sparse_attention.num_random_blocks = 2", "bigbird"}},
      {R"("bf16": {"check_grad_overflow": false},)", {"bf16.check_grad_overflow = false"}},
      {R"("optimizer": {"type": "Lamb"},)", {"optimizer.type = \"Lamb\"", "legal: Adam, AdamW, "}},
      {R"("optimizer": {"type": "SGD", "params": {"maximize": true}},)", {"optimizer.params.maximize = true"}},
      {R"("optimizer": {"type": "Lion", "params": {"eps": 1}},)", {"'optimizer.params.eps'"}},
      {R"("optimizer": {"type": "Adam", "params": {"amsgrad": true}},)", {"optimizer.params.amsgrad = true"}},
      {R"("optimizer": {"type": "Adam", "params": {"max_grad_norm": 1}},)", {"max_grad_norm = 1", "gradient_clipping"}},
      {R"("scheduler": {"type": "StepLR"},)", {"scheduler.type = \"StepLR\"", "OneCycle, LRRangeTest"}},
      {R"("scheduler": {"type": "WarmupLr"},)", {"Did you mean WarmupLR?"}},
      {R"("run": {"keep_last": 1},)", {"run.keep_last = 1"}},
  });
}

TEST_CASE("an override that is not of the form key=value is a usage error") {
  using zrt::core::UsageError;
  for (const char* bad : {"", "=", "=3", "run.steps", "run..steps=3", ".run=3", "run.=3", "a.b.c.d.e.f.g.h.i=1"}) {
    INFO(bad);
    const std::string error = error_of<UsageError>([&] { parsed("", {bad}); });
    CHECK(has(error, "section.key=value"));
  }
  CHECK(has(parse_error("", {"model.layers=2", "model.layers.x=3"}), "'layers' is 2"));
  CHECK(has(parse_error(R"("steps_per_print": 3,)", {"steps_per_print.x=3"}), "'steps_per_print' is 3 in ds.json"));
  CHECK(has(parse_error("", {"data.train=[[1, \"x\""}), "--set 'data.train="));
  for (const char* name : {"[a]/x", "{a}", "'a"}) {
    INFO(name);
    CHECK(has(parse_error("", {std::string("data.train=") + name}),
              std::string("begins with ") + name[0] + " into double quotes: 'train=\"" + name + "\"'"));
  }
  CHECK(has(parse_error("", {"run.steps=many"}), "run.steps = \"many\" (--set run.steps)"));
  CHECK(has(parse_error("", {"run.steps="}), "run.steps = \"\""));
  CHECK(has(parse_error("", {"run.steps=0"}), "run.steps = 0 (--set run.steps)"));
  CHECK_THROWS_AS(parsed("", {"run.out=\xff"}), zrt::core::Error);
  CHECK_THROWS_AS(parsed("", {"run.steps=\xff"}), zrt::core::Error);
}

TEST_CASE("everything that is wrong is told at once, in the order of the file, what is missing last") {
  const std::string error = error_of([] {
    parse_config(R"({"train_batch_size": 5, "train_micro_batch_size_per_gpu": 2,
 "gradient_clipping": -1,
 "zero_optimization": {"stage": 7, "stge": 1,
  "offload_optimizer": "cpu"},
 "optimizer": {"type": "Lamb", "params": {"lr": 1, "max_coeff": 0.3, "max_grad_norm": 1, "lrr": 1}},
 "scheduler": {"type": "Cosine", "params": {"T_max": 5}},
 "run": {"steps": 0, "name": "a/b", "device": "tpu"},
 "memory": {"update": "x", "recompute": "y", "placement": [{"tier": "host"}, 5]},
 "gradient_clipping": 1,
 "_remark": 1, "log": 1
})",
                 "ds.json", {"run.seed=-1"}, 1);
  });
  std::vector<std::string> lines;
  for (size_t begin = 0, end; begin < error.size(); begin = end + 1) {
    end = std::min(error.find('\n', begin), error.size());
    lines.push_back(error.substr(begin, end - begin));
  }
  const std::vector<const char*> expected{
      "20 things are wrong with the configuration ds.json:",
      "train_batch_size = 5",
      "gradient_clipping = -1.0 (ds.json:2) is out of range",
      "unknown key 'zero_optimization.stge'",
      "zero_optimization.stage = 7 (ds.json:3)",
      "zero_optimization.offload_optimizer = \"cpu\" (ds.json:4)",
      "optimizer.type = \"Lamb\" (ds.json:5)",
      "unknown key 'optimizer.params.lrr'",
      "optimizer.params.max_grad_norm = 1 (ds.json:5) is never accepted",
      "scheduler.type = \"Cosine\" (ds.json:6)",
      "run.steps = 0 (ds.json:7)",
      "run.name = \"a/b\" (ds.json:7)",
      "run.device = \"tpu\" (ds.json:7)",
      "memory.placement[0]",
      "memory.placement[1] = 5 (ds.json:8)",
      "memory.update = \"x\" (ds.json:8)",
      "memory.recompute = \"y\" (ds.json:8)",
      "'gradient_clipping' appears twice (first in line 2)",
      "ds.json:10: unknown key 'log'",
      "run.seed = -1 (--set run.seed)",
      "the model has no size for",
  };
  INFO(error);
  REQUIRE(lines.size() == expected.size());
  for (const char* part : expected) CHECK(has(error, part));
  for (size_t i = 0; i + 2 < expected.size(); ++i) {
    if (i < 3) CHECK(has(lines[i], expected[i]));
  }
  CHECK(has(lines[1], "Seen: train_batch_size (ds.json:1), train_micro_batch_size_per_gpu (ds.json:1)."));
}

TEST_CASE("a verdict that would rest on a wrong value is not given beside it") {
  // Only the first of each is wrong: the other would be judged against a value that nobody gave.
  for (const char* text :
       {R"("model": {"hidden": 0, "heads": 3}, "x": {)", R"("zero_optimization": {"stage": 9},)",
        R"("gradient_accumulation_steps": 0, "parallel": {"reduce_every": 4},)",
        R"("optimizer": {"type": "OneBitAdam", "params": {"freeze_step": 3}},)",
        R"("bf16": {"enabled": "maybe"}, "fp8": {"enabled": true},)",
        R"("scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": "x", "cycle_max_lr": 1}},)"}) {
    INFO(text);
    if (std::string(text).find("model") != std::string::npos) {
      const std::string sizes =
          R"({"train_batch_size": 1, "model": {"layers": 1, "hidden": 0, "heads": 3, "sequence": 4,
        "vocab": 5}})";
      CHECK(error_of([&] { parse_config(sizes, "c", {}, 1); }).find('\n') == std::string::npos);
      continue;
    }
    CHECK(parse_error(text).find('\n') == std::string::npos);
  }
}

TEST_CASE("a long list of problems is cut, and says how many there are") {
  std::string keys;
  for (int i = 0; i < 100; ++i) keys += "\"wrong" + std::to_string(i) + "\": 1,";
  const std::string error = parse_error(keys);
  CHECK(has(error, "100 things are wrong"));
  CHECK(has(error, "and 40 more."));
  CHECK(std::count(error.begin(), error.end(), '\n') == 61);
}

}  // namespace zrt::config_refuse_test

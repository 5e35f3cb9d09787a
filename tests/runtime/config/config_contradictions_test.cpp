// Keys that each are legal and together are not: both are named.
#include <nlohmann/json.hpp>

#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_contradictions_test {

using namespace zrt::runtime;

TEST_CASE("a key of DeepSpeed's and zrt's own that differ are refused with both named, whatever each of them says") {
  struct Pair {
    std::string theirs, own;
    std::vector<std::string> of_theirs, of_own;
    std::string open;  // of theirs: says nothing
    Settings more = {};
  };
  const std::vector<Pair> pairs{{"pipeline.stages", "parallel.pipeline", {"1", "2"}, {"1", "2"}, "auto"},
                                {"pipeline.partition",
                                 "parallel.partition",
                                 {"best", "parameters", "uniform"},
                                 {"time", "parameters", "uniform"},
                                 "best",
                                 {"parallel.pipeline=2"}},
                                {"tensor_parallel.autotp_size", "parallel.tensor", {"0", "1", "2"}, {"1", "2"}, "0"},
                                {"tensor_parallel.tp.tp_size", "parallel.tensor", {"1", "2"}, {"1", "2"}, "1"},
                                {"activation_checkpointing.partition_activations",
                                 "parallel.sequence",
                                 {"false", "true"},
                                 {"false", "true"},
                                 "false",
                                 {"parallel.tensor=2"}}};
  int differ = 0;
  for (const Pair& pair : pairs) {
    for (const std::string& theirs : pair.of_theirs) {
      for (const std::string& own : pair.of_own) {
        Settings sets = pair.more;
        sets.insert(sets.end(), {pair.theirs + "=" + theirs, pair.own + "=" + own});
        CAPTURE(pair.theirs, theirs, pair.own, own);
        std::string error;
        try {
          parsed(R"("gradient_accumulation_steps": 2,)", sets, 2);
        } catch (const zrt::core::ConfigError& thrown) {
          error = thrown.what();
        }
        INFO(error);
        const bool refused = theirs != own && theirs != pair.open;
        CHECK((error.find("contradicts " + pair.own + " = ") != std::string::npos) == refused);
        CHECK((error.find(pair.theirs + " = ") != std::string::npos) == refused);
        differ += refused;
      }
    }
  }
  CHECK(differ == 10);
}

TEST_CASE("groups that the ranks or the stage do not allow are refused by key") {
  const auto refused = [](const std::string& keys, int ranks) { return parse_error(keys, {}, ranks); };
  const std::string stage3 = R"("zero_optimization": {"stage": 3, )";
  CHECK(has(refused(stage3 + R"("zero_hpz_partition_size": 3},)", 4), "zero_hpz_partition_size = 3"));
  CHECK(has(refused(stage3 + R"("mics_shard_size": 3},)", 4),
            "must divide the 4 data-parallel ranks. Legal are -1, 0, 2, 4."));
  CHECK(has(refused(stage3 + R"("mics_shard_size": 1},)", 4), "legal: -1, 0 and 2 or more"));
  CHECK(has(refused(stage3 + R"("zero_hpz_partition_size": 3},)", 4), "Legal are 0, 1, 2, 4."));
  CHECK(has(refused(R"("zero_optimization": {"stage": 2, "mics_shard_size": 2},)", 4), "belongs to"));
  CHECK(has(refused(stage3 + R"("mics_shard_size": 2, "zero_hpz_partition_size": 2},)", 4), "cannot be combined"));
  CHECK(has(refused(R"("parallel": {"hierarchical_ranks": 3},)", 4), "Legal are 1, 2, 4."));
  CHECK(has(refused(stage3 + R"("zero_hpz_partition_size": 2}, "parallel": {"hierarchical_ranks": 4},)", 8),
            "must equal parallel.hierarchical_ranks = 4"));
}

TEST_CASE("keys that contradict each other are refused") {
  check_all({
      {R"("train_batch_size": 33, "train_micro_batch_size_per_gpu": 16,)",
       {"train_batch_size = 33", "here 16. The nearest are 32 and 48;"}},
      {R"("gradient_accumulation_steps": 6, "parallel": {"reduce_every": 4},)",
       {"parallel.reduce_every = 4", "gradient_accumulation_steps = 6"}},
      {R"("communication_data_type": "bf16",)", {"communication_data_type = \"bf16\"", "fp32"}},
      {R"("communication_data_type": "int8",)", {"communication_data_type = \"int8\"", "is not legal"}},
      {R"("bf16": {"enabled": true}, "communication_data_type": "fp16",)", {"communication_data_type = \"fp16\""}},
      {R"("bf16": {"enabled": true}, "communication_data_type": "bf16", "gradient_accumulation_steps": 2,)",
       {"communication_data_type = \"bf16\"", "parallel.reduce_every = 2"}},
      {R"("bf16": {"enabled": true}, "gradient_accumulation_steps": 2, "data_types": {"grad_accum_dtype": "fp16"},)",
       {"data_types.grad_accum_dtype = \"fp16\"", "and \"fp32\", and \"bf16\"."}},
      {R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp16"},)", {"null and \"bf16\"."}},
      {R"("fp16": {"enabled": true}, "communication_data_type": "fp16", "gradient_accumulation_steps": 2,)",
       {"parallel.reduce_every to 1."}},
      {R"("fp16": {"enabled": true}, "gradient_accumulation_steps": 2, "data_types": {"grad_accum_dtype": "fp16"},)",
       {"data_types.grad_accum_dtype = \"fp16\"", "null and \"fp32\"."}},
      {R"("bf16": {"enabled": true}, "gradient_accumulation_steps": 2, "communication_data_type": "fp32",
          "data_types": {"grad_accum_dtype": "bf16"},)",
       {"data_types.grad_accum_dtype = \"bf16\"", "sent in fp32 (communication_data_type", "null and \"fp32\"."}},
      {R"("fp16": {"enabled": true}, "bf16": {"enabled": true},)", {"fp16.enabled = true", "bf16.enabled"}},
      {R"("fp8": {"enabled": true},)", {"fp8.enabled = true (ds.json:1)", "bf16.enabled = true"}},
      {R"("fp8": {"enabled": true}, "fp16": {"enabled": true},)", {"fp8.enabled = true", "bf16.enabled = true"}},
      {R"("fp16": {"enabled": true, "initial_scale_power": 2, "min_loss_scale": 5},)", {"min_loss_scale = 5", "4.0"}},
      {R"("optimizer": {"type": "SGD", "params": {"lr": "x", "nesterov": true}}, "parameter_groups": [1],)",
       {"optimizer.params.lr", "optimizer.params.nesterov", "parameter_groups"}},
      {R"("optimizer": {"type": "SGD", "params": {"nesterov": true}},)", {"optimizer.params.nesterov", "momentum"}},
      {R"("optimizer": {"type": "SGD", "params": {"momentum": 0.9, "nesterov": true, "dampening": 0.5}},)",
       {"optimizer.params.nesterov", "dampening"}},
      {R"("optimizer": {"type": "Adafactor", "params": {"lr": 0.1}},)", {"optimizer.params.lr = 0.1", "relative_step"}},
      {R"("optimizer": {"type": "Adafactor", "params": {"relative_step": false}},)",
       {"optimizer.params.lr is missing"}},
      {R"("optimizer": {"type": "Adafactor", "params": {"lr": 1, "relative_step": false, "warmup_init": true}},)",
       {"warmup_init = true", "relative_step"}},
      {R"("optimizer": {"type": "Adafactor"}, "scheduler": {"type": "WarmupLR"},)",
       {"scheduler.type = \"WarmupLR\"", "relative_step"}},
      {R"("scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1}},)", {"cycle_max_lr is missing"}},
      {R"("scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 0.2, "decay_step_size": 1,
 "cycle_first_step_size": 3, "decay_mom_rate": 0.1}},)",
       {"decay_mom_rate = 0.1 (ds.json:2)", "below 1"}},
      {R"("bf16": {}, "bfloat16": {},)", {"bfloat16 (ds.json:1) and bf16 (ds.json:1)", "two spellings"}},
      {R"("zero_optimization": {"prefetch_bucket_size": 1,
 "stage3_prefetch_bucket_size": 1},)",
       {"zero_optimization.prefetch_bucket_size (ds.json:1)", "stage3_prefetch_bucket_size (ds.json:2)"}},
      {R"("memory": {"moments": "fp8"},)", {"memory.moments = \"fp8\"", "\"int8\""}},
      {R"("memory": {"master": "bf16"},)", {"memory.master = \"bf16\"", "\"none\""}},
      {R"("memory": {"master": "none"},)", {"memory.master = \"none\"", "bf16.enabled = true"}},
      {R"("memory": {"master": "none"}, "fp16": {"enabled": true},)", {"memory.master", "bf16.enabled = true"}},
      {R"("memory": {"moments": "int8"}, "optimizer": {"type": "Adafactor"},)",
       {"memory.moments", "Adafactor", "AdamW"}},
      {R"("memory": {"master": "none"}, "bf16": {"enabled": true}, "optimizer": {"type": "Adafactor"},)",
       {"memory.master", "Adafactor"}},
      {R"("run": {}, "run": {},)", {"'run' appears twice"}},
  });
  CHECK(has(error_of([] { parsed("", {}, 0); }), "ranks = 0"));
}

TEST_CASE("an option and a --set that contradict each other are refused with both named") {
  const Settings both{{"bf16.enabled=true", "--dtype"}, {"bf16.enabled=false"}};
  CHECK(has(error_of([&] { parse_config(with(R"("train_batch_size": 1,)"), "c", both, 1); }),
            "--dtype sets bf16.enabled = true, but --set sets bf16.enabled = false; give one of the two"));
  const Settings section{{"bf16.enabled=true", "--dtype"}, {R"(bf16={"enabled": false})"}};
  CHECK(has(error_of([&] { parse_config(with(R"("train_batch_size": 1,)"), "c", section, 1); }), "--dtype sets"));
  const Settings alias{{"bf16.enabled=true", "--dtype"}, {"bfloat16.enabled=no"}};
  CHECK(has(error_of([&] { parse_config(with(R"("train_batch_size": 1,)"), "c", alias, 1); }), "--dtype sets"));
  // The two stand anywhere among other settings.
  const Settings others{{"run.out=x", "--out"}, {"run.seed=3"}, {"run.name=y"}};
  for (size_t second = 0; second <= others.size(); ++second) {
    for (size_t first = 0; first <= second; ++first) {
      Settings sets = others;
      sets.insert(sets.begin() + static_cast<std::ptrdiff_t>(second), Override("run.steps=10"));
      sets.insert(sets.begin() + static_cast<std::ptrdiff_t>(first), Override("run.steps=5", "--steps"));
      CAPTURE(first, second);
      CHECK(has(parse_error("", sets), "--steps sets run.steps = 5, but --set sets run.steps = 10"));
    }
  }
  // One value by two ways, and several --set, of which the last counts, are no contradiction.
  const Settings same{{"bf16.enabled=true", "--dtype"}, {"bf16.enabled=1"}, {"run.steps=1"}, {"run.steps=2"}};
  CHECK(parse_config(with(R"("train_batch_size": 1,)"), "c", same, 1).run.steps == 2);
  CHECK(has(error_of([&] {
              parse_config(with(R"("train_batch_size": 1,)"), "c", {{"run.steps=0", "--steps"}}, 1);
            }),
            "run.steps = 0 (--steps) is out of range"));
}

}  // namespace zrt::config_contradictions_test

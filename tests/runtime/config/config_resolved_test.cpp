#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/data_folder.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_resolved_test {

using namespace zrt::runtime;
using nlohmann::json;

namespace {

const char* const text = R"({"train_batch_size": 16, "gradient_accumulation_steps": 4, "bf16": {"enabled": true},
  "zero_optimization": {"stage": 3, "prefetch_bucket_size": 7, "offload_param": null},
  "tensorboard": {"output_path": "x"},
  "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto", "warmup_num_steps": 5}},
  "model": {"preset": "gpt2-tiny", "sequence": 16}, "data": {"train": [[1, "x", "en"]]}})";

Config example() {
  return parse_config(text, "dir/first.json", {"run.steps=50", "optimizer.params.lr=0.1"}, 2);
}

std::filesystem::path write(const std::string& name, const std::string& content) {
  const auto file = std::filesystem::path(ZRT_BINARY_DIR) / name;
  std::ofstream(file) << content;
  return file;
}

}  // namespace

TEST_CASE("the resolved configuration holds every key in force with its value and origin") {
  const Config config = example();
  const json resolved = json::parse(resolved_json(config));
  const auto entry = [](const json& value, const char* from) { return json({{"value", value}, {"from", from}}); };
  CHECK(resolved["train_batch_size"] == entry(16, "file"));
  CHECK(resolved["train_micro_batch_size_per_gpu"] == entry(2, "inferred"));
  CHECK(resolved["zero_optimization"]["stage"] == entry(3, "file"));
  CHECK(resolved["zero_optimization"]["overlap_comm"] == entry(true, "inferred"));
  CHECK(resolved["zero_optimization"]["stage3_prefetch_bucket_size"] == entry(7, "file"));
  CHECK(resolved["zero_optimization"]["reduce_bucket_size"] == entry(500000000, "default"));
  CHECK(resolved["zero_optimization"]["offload_param"]["device"] == entry("none", "default"));
  CHECK(resolved["tensorboard"]["output_path"] == entry("x", "file"));
  CHECK(resolved["tensorboard"]["enabled"] == entry(false, "default"));
  CHECK(!resolved.contains("wandb"));
  CHECK(resolved["optimizer"]["type"] == entry("AdamW", "inferred"));
  CHECK(resolved["optimizer"]["params"]["lr"] == entry(0.1, "command line"));
  CHECK(resolved["scheduler"]["params"]["total_num_steps"] == entry(50, "inferred"));
  CHECK(resolved["model"]["hidden"] == entry(64, "inferred"));
  CHECK(resolved["model"]["sequence"] == entry(16, "file"));
  CHECK(resolved["run"]["steps"] == entry(50, "command line"));
  CHECK(resolved["run"]["name"] == entry("first", "inferred"));
  CHECK(resolved["run"]["seed"] == entry(1, "default"));
  CHECK(resolved["parallel"]["reduce_every"] == entry(1, "inferred"));
  CHECK(resolved["data"]["train"] == entry(json::parse(R"([[1, "x", "en"]])"), "file"));
}

TEST_CASE("a run's configuration is re-created from its resolved file") {
  const Config config = into_folder(example(), "runs/first-1");
  const auto file = write("config_resolved_round.json", resolved_json(config));
  const Config again = load_resolved(file);
  CHECK(resolved_json(again) == resolved_json(config));
  CHECK(again.ranks == 2);
  CHECK(again.mesh == config.mesh);
  CHECK(again.batch.micro == 2);
  CHECK(again.model.sequence == 16);
  CHECK(again.model.preset == "gpt2-tiny");
  CHECK(again.run.out == "runs/first-1");
  CHECK(again.run.name == "first");
  CHECK(again.schedule.total_num_steps == 50);
  CHECK(again.optimizer.lr == 0.1);
  CHECK(again.precision.local_grad == config.precision.local_grad);
  CHECK(again.data.train[0].language == "en");
  const Config other = load_resolved(file, {"data.validation=y"});
  CHECK(other.data.validation.at(0).prefix == "y");
  CHECK(json::parse(resolved_json(other))["data"]["validation"]["from"] == "command line");
  std::filesystem::remove(file);
}

TEST_CASE("a Llama's configuration is re-created from its resolved file") {
  for (const char* preset : {"llama-tiny", "llama-3.2-1b"}) {
    const Config config =
        parse_config(R"({"train_batch_size": 1})", "c", {"model.preset=" + std::string(preset), "model.ffn=96"}, 1);
    const auto file = write("config_resolved_llama.json", resolved_json(config));
    const Config again = load_resolved(file);
    CHECK(resolved_json(again) == resolved_json(config));
    CHECK(again.model.type == "llama");
    CHECK(in_force(again, "model.ffn") == 96);
    for (const char* key : {"kv_heads", "rope_theta", "rope_scaling.factor"}) {
      const std::string path = std::string("model.") + key;
      CHECK(in_force(again, path) == in_force(config, path));
    }
    std::filesystem::remove(file);
  }
}

namespace {

// Every configuration of the table of effects, which has a line for each key, with that key set as the line says, or
// "auto"; by what it was made of. Those that are refused are left out.
std::map<std::string, Config> all_configurations(int ranks) {
  std::ifstream file(zrt::test::data_folder() + "/key_effects.json");
  std::map<std::string, Config> all;
  for (const json& line : json::parse(file)) {
    const std::string key = line["key"];
    for (const json& value : {line["value"], json("auto"), json::array({line["value"]}), json()}) {
      json config{
          {"model", {{"preset", "gpt2-tiny"}}}, {"data", {{"train", "corpus"}}}, {"zero_optimization", {{"stage", 3}}}};
      config.merge_patch(line.value("base", json::object()));
      json* section = &config;
      std::string path = key;
      for (size_t dot; (dot = path.find('.')) != std::string::npos; path.erase(0, dot + 1)) {
        section = &(*section)[path.substr(0, dot)];
      }
      (*section)[path] = value;
      if (line.contains("also")) config.merge_patch(line["also"]);
      try {
        const std::string whole = config.dump();
        all.emplace(key + " = " + value.dump() + " in " + whole, parse_config(whole, "run.json", {}, ranks));
      } catch (const zrt::core::ConfigError&) {
      }
    }
  }
  return all;
}

// The values in force.
std::map<std::string, json> values_of(const Config& config) {
  std::map<std::string, json> values;
  for (const ResolvedKey& key : config.keys) values[key.path] = json::parse(key.value);
  return values;
}

}  // namespace

TEST_CASE("whatever key is given or inferred, a run's configuration is re-created, also from its file and once more") {
  const auto file = std::filesystem::path(ZRT_BINARY_DIR) / "config_resolved_keys.json";
  std::set<std::string> inferred;
  const auto all = all_configurations(4);
  CHECK(all.size() > 300);
  for (const auto& [what, config] : all) {
    INFO(what);
    for (const ResolvedKey& key : config.keys) {
      if (key.from == "inferred") inferred.insert(key.path);
    }
    const auto expected = values_of(config);
    CHECK(values_of(reconfigured(config, {}, 4)) == expected);
    std::ofstream(file) << resolved_json(config);
    const Config loaded = load_resolved(file);
    CHECK(json::parse(resolved_json(loaded)) == json::parse(resolved_json(config)));
    CHECK(values_of(reconfigured(loaded, {}, 4)) == expected);
    // generate and eval --ranks 1 turn it into this.
    for (const Config* from : {&config, &loaded}) {
      const Config one = data_parallel(*from, 1);
      CHECK(one.mesh.world() == 1);
      CHECK(one.batch.micro == config.batch.micro);
      CHECK(one.model.sequence == config.model.sequence);
    }
  }
  std::filesystem::remove(file);
  // These keys are among those that were inferred, so that the test was not for nothing.
  for (const char* key :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization.overlap_comm", "model.hidden",
        "run.log_interval", "parallel.reduce_every", "memory.nvme_path", "scheduler.params.total_num_steps",
        "scheduler.params.warmup_max_lr", "scheduler.params.cycle_second_stair_count"}) {
    INFO(key);
    CHECK(inferred.count(key) == 1);
  }
}

TEST_CASE("a configuration can be made anew without keys and whole sections") {
  const Config config = parsed(R"("zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}},
      "memory": {"update": "host", "update_when": "as_ready"}, "gradient_clipping": 0,)");
  const Config without = reconfigured(config, {}, 1, {"zero_optimization", "memory.update"});
  CHECK(without.zero.stage == 0);
  CHECK(without.memory.rules.empty());
  CHECK(without.memory.update == UpdateSide::automatic);
  CHECK(without.memory.update_when == UpdateWhen::as_ready);
}

TEST_CASE("ranks that are all data-parallel sum as the run did, and know its cluster") {
  const Config config =
      parsed(R"("parallel": {"tensor": 2, "sequence": true, "sums": "fast", "cluster": "here", "reduce_every": 2},
      "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 4,)",
             {}, 4);
  const Config flat = data_parallel(config, 2);
  CHECK(flat.mesh.data() == 2);
  CHECK(flat.batch.micro == 3);
  CHECK(flat.batch.accumulation == 1);
  CHECK(flat.parallel.reduce_every == 1);
  CHECK(flat.parallel.fast_sums);
  CHECK(flat.parallel.cluster == "here");
}

TEST_CASE("a rank that keeps weights alone has the run's budgets and drive, but places, updates and batches nothing") {
  const Config config =
      parsed(R"("zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "drive"}},
      "memory": {"device_budget_bytes": 1000000, "nvme_budget_bytes": 2000000, "recompute": "full", "update": "host"},
      "activation_checkpointing": {"cpu_checkpointing": true},
      "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 4,)",
             {}, 4);
  const Config one = weights_alone(config);
  CHECK(one.mesh.world() == 1);
  CHECK(one.zero.stage == 0);
  CHECK(one.batch.train == 1);
  CHECK(one.parallel.reduce_every == 1);
  CHECK(one.memory.rules.empty());
  CHECK(one.memory.open_placement);
  CHECK(one.memory.recompute == Recompute::none);
  CHECK(one.memory.update == UpdateSide::automatic);
  CHECK(one.memory.device_budget_bytes == 1000000);
  CHECK(one.memory.nvme_budget_bytes == 2000000);
  CHECK(one.memory.nvme_path == "drive");
  CHECK(weights_alone(parsed(R"("memory": {"placement": "host"},)")).memory.rules.empty());
}

TEST_CASE("what auto stands for follows the changes of a configuration") {
  const Config config = example();
  CHECK(reconfigured(config, {"run.steps=80"}, 2).schedule.total_num_steps == 80);
  const auto rates = [](const std::string& params) {
    return parsed(
        R"("optimizer": {"type": "AdamW", "params": {"lr": 0.5}}, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 9)" +
        params + "}},");
  };
  // The default is another than what "auto" means.
  CHECK(reconfigured(rates(R"(, "warmup_max_lr": "auto")"), {}, 1).schedule.warmup_max_lr == 0.5);
  CHECK(reconfigured(rates(""), {}, 1).schedule.warmup_max_lr == 0.001);
  CHECK(reconfigured(rates(R"(, "warmup_min_lr": [0.25])"), {}, 1).schedule.warmup_min_lr == 0.25);
}

TEST_CASE("a file that is no resolved configuration is refused") {
  const auto bad = [](const std::string& content) {
    const auto file = write("config_resolved_bad.json", content);
    const std::string error = error_of([&] { load_resolved(file); });
    std::filesystem::remove(file);
    return error;
  };
  CHECK(has(bad(text), "holds {\"value\""));
  CHECK(has(bad(R"({"run": {"steps": {"value": 1, "from": "elsewhere"}}})"), "'run.steps'"));
  CHECK(has(bad("{}"), "train_batch_size is missing"));
  CHECK(has(bad("5"), "holds 5"));
  CHECK(has(bad(R"({"value": 5, "from": "file"})"), "holds 5"));
}

TEST_CASE("a resolved file that is given for a configuration is refused in one sentence") {
  CHECK_THROWS_WITH(parse_config(resolved_json(example()), "run/config.resolved.json", {}, 2),
                    Catch::Contains("run/config.resolved.json: is what a run has written") &&
                        Catch::Contains("--resume auto") && !Catch::Contains("wrong type"));
}

}  // namespace zrt::config_resolved_test

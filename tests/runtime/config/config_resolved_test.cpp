#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

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
  Config config = example();
  record_inferred(config, "run.out", "runs/first-1");
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

TEST_CASE("only keys of the table can be recorded") {
  Config config = example();
  CHECK_THROWS_AS(record_inferred(config, "run.outt", "x"), zrt::core::ProgramError);
}

}  // namespace zrt::config_resolved_test

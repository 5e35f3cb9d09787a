// Runs with adapters from a folder of Hugging Face to one of PEFT and to merged weights.
#include "catch.h"
#include "program.h"
#include "runtime/train/checkpoint/tensor_set.h"

namespace zrt::adapter_run_test {
namespace {

using namespace zrt::testing;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

const std::string source = std::string(ZRT_TEST_DATA) + "/finetuning/";

struct Run {
  Folder folder{"adapter_run"};
  std::string base = folder / "base", set;

  Run() {
    fs::copy(source + "qwen3", base);
    const Result built = run_zrt("data build --tokenizer " + base + "/tokenizer.json --out " + (folder / "x") + " " +
                                 source + "train.jsonl");
    REQUIRE(built.code == 0);
    folder.write("run.json", R"({"train_batch_size": 4, "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
      "adapters": {"type": "lora", "rank": 4, "targets": ["q_proj", "mlp.down_proj"]}, "memory": {"frozen": "nf4"},
      "zero_optimization": {"stage": 2}, "parallel": {"reduce_every": 1},
      "run": {"steps": 6, "seed": 1}})");
    set = " --set model.sequence=32 --set data.train=" + (folder / "x");
  }
  Result train(const std::string& out, int ranks, const std::string& options) const {
    return run_zrt("train " + (folder / "run.json") + " --ranks " + std::to_string(ranks) + " --out " + (folder / out) +
                   set + " " + options);
  }
};

nlohmann::json inspected(const std::string& path) {
  const Result result = run_zrt("checkpoint inspect --json " + path);
  INFO(result.text);
  REQUIRE(result.code == 0);
  return nlohmann::json::parse(result.text.substr(result.text.find('{')));
}

}  // namespace

TEST_CASE(
    "a run with adapters saves these alone, goes on from them, and becomes a folder of PEFT or of plain weights") {
  const Run run;
  const Result whole = run.train("whole", 2, "--resume " + run.base);
  INFO(whole.text);
  REQUIRE(whole.code == 0);
  REQUIRE(run.train("parts", 2, "--resume " + run.base + " --set run.steps=3").code == 0);
  const Result rest = run.train("parts", 2, "--resume auto");
  INFO(rest.text);
  REQUIRE(rest.code == 0);
  const auto hash = [&](const char* name) { return read_json(run.folder / name + "/summary.json")["state_xxh3"]; };
  CHECK(hash("parts") == hash("whole"));

  const std::string saved = run.folder / "whole/checkpoints/step_6";
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(saved))
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  CHECK(bytes < 40000);  // the model's matrices alone take more
  const nlohmann::json held = inspected(saved);
  CHECK(held["made_by"]["base"]["folder"] == run.base);
  CHECK(held["tensors"].contains("model.layers.1.mlp.down_proj.lora_B.weight"));
  CHECK(held["tensors"].contains("exp_avg.model.layers.1.mlp.down_proj.lora_B.weight"));
  CHECK_FALSE(held["tensors"].contains("exp_avg.model.layers.1.mlp.down_proj.weight"));

  REQUIRE(run_zrt("checkpoint export " + saved + " --adapters --out " + (run.folder / "peft")).code == 0);
  REQUIRE(run_zrt("checkpoint export " + saved + " --out " + (run.folder / "merged")).code == 0);
  const nlohmann::json config = read_json(run.folder / "peft/adapter_config.json");
  CHECK(config["r"] == 4);
  CHECK(config["target_modules"] == nlohmann::json::array({"down_proj", "q_proj"}));
  // Merged weights begin where adapters beside their whole base ended.
  const auto first_loss = [&](const std::string& out, const std::string& options) {
    const Result result = run.train(out, 1, options + " --set run.steps=1 --set optimizer.params.lr=0");
    INFO(result.text);
    REQUIRE(result.code == 0);
    return read_json(run.folder / out + "/summary.json")["final_loss"].get<double>();
  };
  const std::string plain = " --set adapters=null --set memory.frozen=compute";
  const double merged = first_loss("from_merged", "--resume " + (run.folder / "merged") + plain);
  const double beside = first_loss("from_peft", "--resume " + (run.folder / "peft") + " --set memory.frozen=compute");
  const double begun = first_loss("from_base", "--resume " + run.base + plain);
  CHECK(merged == Approx(beside).epsilon(1e-6));
  CHECK(merged < begun);
  const Result planned = run_zrt("plan " + (run.folder / "peft") + " --set model.sequence=32");
  CHECK_THAT(planned.text, Contains("frozen:") && Contains("lora_A"));
}

TEST_CASE("weights that were trained beside adapters stay when a later run freezes them, and PEFT does not lose them") {
  const Run run;
  const std::string norms = R"( --set 'parameter_groups=[{"match": "*norm.weight", "trainable": true}]')";
  REQUIRE(run.train("first", 1, "--resume " + run.base + norms).code == 0);
  const Result second = run.train("second", 1, "--resume " + (run.folder / "first") + " --set run.steps=8");
  INFO(second.text);
  REQUIRE(second.code == 0);
  const std::string norm = "model.layers.0.input_layernorm.weight";
  CHECK(inspected(run.folder / "second/checkpoints/step_8")["tensors"].contains(norm));
  const auto exported = [&](const char* name) {
    const std::string out = run.folder / (std::string(name) + "_out");
    REQUIRE(run_zrt("checkpoint export " + (run.folder / name) + " --out " + out).code == 0);
    return zrt::runtime::checkpoint::TensorSet(out, {out + "/model.safetensors"});
  };
  const auto values = [&](const zrt::runtime::checkpoint::TensorSet& set) {
    std::vector<float> all(static_cast<size_t>(set.elements(norm)));
    set.read(norm, 0, all);
    return all;
  };
  const auto first = values(exported("first"));
  CHECK(first == values(exported("second")));
  CHECK(first != values(zrt::runtime::checkpoint::TensorSet(run.base, {run.base + "/model.safetensors"})));
  const Result peft =
      run_zrt("checkpoint export " + (run.folder / "first") + " --adapters --out " + (run.folder / "p"));
  CHECK(peft.code != 0);
  CHECK_THAT(peft.text, Contains("was trained beside the adapters"));
}

TEST_CASE(
    "a run that begins with an imported model exports its weights as they came, though it computes with four bits") {
  const Run run;
  REQUIRE(run_zrt("checkpoint import " + run.base + " --out " + (run.folder / "imported")).code == 0);
  const Result trained = run.train("run", 1, "--resume " + (run.folder / "imported") + " --set bf16.enabled=true");
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  const std::string out = run.folder / "out";
  REQUIRE(run_zrt("checkpoint export " + (run.folder / "run") + " --out " + out).code == 0);
  const zrt::runtime::checkpoint::TensorSet merged(out, {out + "/model.safetensors"});
  const zrt::runtime::checkpoint::TensorSet before(run.base, {run.base + "/model.safetensors"});
  for (const std::string& name : before.names()) {
    std::vector<float> was(static_cast<size_t>(before.elements(name))), is(was.size());
    before.read(name, 0, was), merged.read(name, 0, is);
    INFO(name);
    const bool adapted = name.find("q_proj") != std::string::npos || name.find("down_proj") != std::string::npos;
    CHECK((is == was) == !adapted);
  }
}

TEST_CASE(
    "a matrix of adapters that is frozen is saved with the other, and other targets than were trained are refused") {
  const Run run;
  const std::string half = R"( --set 'parameter_groups=[{"match": "*.lora_A.weight", "trainable": false}]')";
  REQUIRE(run.train("half", 1, "--resume " + run.base + half).code == 0);
  REQUIRE(run.train("half", 1, "--resume auto --set run.steps=8" + half).code == 0);
  REQUIRE(run_zrt("checkpoint export " + (run.folder / "half") + " --adapters --out " + (run.folder / "p")).code == 0);
  const auto refused = [&](const std::string& options) {
    const Result result = run.train("other", 1, "--resume " + (run.folder / "p") + options);
    CHECK(result.code != 0);
    return result.text;
  };
  CHECK_THAT(refused(R"( --set 'adapters.targets=["q_proj"]')"), Contains("down_proj") && Contains("adapters.targets"));
  CHECK_THAT(refused(R"( --set 'adapters.targets=["q_proj", "mlp.down_proj", "o_proj"]')"),
             Contains("o_proj") && Contains("adapters.targets"));
  CHECK_THAT(refused(" --set adapters.rank=2"), Contains("adapters.rank is 2 but it has 4"));
}

TEST_CASE("adapters whose base is gone or another are refused with its folder, and what is theirs can be looked at") {
  const Run run;
  REQUIRE(run.train("run", 1, "--resume " + run.base).code == 0);
  const auto refused = [&](const std::string& command) {
    const Result result = run_zrt(command);
    CHECK(result.code != 0);
    return result.text;
  };
  const std::string moved = run.folder / "elsewhere", run_folder = run.folder / "run";
  fs::rename(run.base, moved);
  CHECK_THAT(refused("eval --data " + (run.folder / "x") + " " + run_folder),
             Contains(run.base) && Contains("is gone"));
  CHECK_THAT(refused("checkpoint export " + run_folder + " --out " + (run.folder / "out")), Contains("is gone"));
  CHECK(run_zrt("checkpoint verify " + run_folder).code == 0);
  CHECK(inspected(run_folder)["tensors"].size() > 0);
  fs::copy(moved, run.base);
  CHECK(run_zrt("eval --data " + (run.folder / "x") + " " + run_folder).code == 0);
  std::fstream weights(run.base + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  weights.seekp(-3, std::ios::end);
  weights.put('\x11');
  weights.close();
  CHECK_THAT(refused("eval --data " + (run.folder / "x") + " " + run_folder), Contains("has other files"));
}

}  // namespace zrt::adapter_run_test

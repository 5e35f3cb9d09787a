// One small run through every command: trained, evaluated, saved, inspected, exported, imported and gone on with.
#include "program.h"

namespace zrt::run_commands_test {

using namespace zrt::testing;

TEST_CASE("A run leaves its files, and eval and generate read them") {
  const Folder folder("run");
  build_data(folder);
  folder.write("good.json", folder.config());
  const std::string preset = GENERATE("gpt2-tiny", "llama-tiny");
  const Result trained =
      run_zrt("train " + (folder / "good.json") + " --ranks 2 --set run.trace=true --set model.preset=" + preset);
  INFO(trained.text);
  REQUIRE(trained.code == 0);

  const auto resolved = read_json(folder / "run/config.resolved.json");
  CHECK(resolved["zero_optimization"]["stage"]["value"] == 3);
  CHECK(resolved["zero_optimization"]["stage"]["from"] == "file");
  CHECK(resolved["run"]["trace"]["from"] == "command line");
  CHECK(resolved["gradient_accumulation_steps"]["from"] == "inferred");
  CHECK(resolved["model"]["type"]["value"] == preset.substr(0, preset.find('-')));

  std::ifstream metrics(folder / "run/metrics.jsonl");
  int64_t steps = 0;
  for (std::string line; std::getline(metrics, line);) {
    const auto json = nlohmann::json::parse(line);
    CHECK(json["step"] == ++steps);
    for (const char* key : {"loss", "grad_norm", "lr", "loss_scale", "tokens", "step_seconds", "tokens_per_second",
                            "exposed_comm_seconds", "exposed_io_seconds"}) {
      CHECK(json.contains(key));
    }
  }
  CHECK(steps == 6);

  const auto memory = read_json(folder / "run/memory.json");
  REQUIRE(memory["ranks"].size() == 2);
  for (const auto& rank : memory["ranks"]) {
    const auto& device = rank["tiers"]["device"];
    CHECK(device["planned_peak_bytes"] == device["measured_peak_bytes"]);
    CHECK(device["categories"]["weights"] > 0);
  }
  CHECK(memory["processes"][0]["outside_arena_bytes"] > 0);

  const auto summary = read_json(folder / "run/summary.json");
  CHECK(summary["exit_reason"] == "finished");
  CHECK(summary["state_xxh3"].get<std::string>().size() == 16);
  CHECK(read_json(folder / "run/trace.json")["traceEvents"].size() > 100);

  const Result evaluated = run_zrt("eval " + (folder / "run") + " --json");
  INFO(evaluated.text);
  REQUIRE(evaluated.code == 0);
  CHECK(nlohmann::json::parse(evaluated.text)["loss"] == summary["validation"]["loss"]);

  const Result text = run_zrt("generate " + (folder / "run") + " --prompt li --tokens 10 --seed 3 --json");
  INFO(text.text);
  REQUIRE(text.code == 0);
  CHECK(run_zrt("generate " + (folder / "run") + " --prompt li --tokens 10 --seed 3 --json").text == text.text);
  CHECK(run_zrt("generate " + (folder / "run") + " --prompt li --tokens 10 --seed 4 --json").text != text.text);
  CHECK(run_zrt("generate " + (folder / "nowhere")).code == 1);
  fs::resize_file(folder.path / "run/checkpoints/step_6/shard-00001-model-00001-of-00003.safetensors", 5000);
  const Result cut = run_zrt("eval " + (folder / "run"));
  INFO(cut.text);
  CHECK(cut.code == 1);
  CHECK(cut.text.find("shard-00001-model-00001-of-00003.safetensors: has 5000 bytes") != std::string::npos);
}

TEST_CASE("A run is saved on its way, listed, inspected, verified, exported, imported and gone on with") {
  const Folder folder("checkpoints");
  build_data(folder);
  folder.write("good.json", folder.config());
  const std::string train = "train " + (folder / "good.json") + " --ranks 2 --set run.checkpoint_interval=2 ";
  const auto ok = [](const std::string& arguments) {
    const Result result = run_zrt(arguments);
    INFO("zrt " << arguments << "\n" << result.text);
    REQUIRE(result.code == 0);
    return result.text;
  };
  ok(train + "--out " + (folder / "whole"));
  ok(train + "--steps 4 --out " + (folder / "run"));
  // A fresh run does not mix its checkpoints with others; --resume goes on, on other ranks too.
  CHECK(run_zrt(train + "--out " + (folder / "run")).text.find("--resume auto") != std::string::npos);
  ok(train + "--resume auto --out " + (folder / "run"));
  CHECK(read_json(folder / "run/summary.json")["state_xxh3"] == read_json(folder / "whole/summary.json")["state_xxh3"]);
  ok("train " + (folder / "good.json") + " --ranks 1 --steps 8 --resume " + (folder / "run") + " --out " +
     (folder / "other"));

  const auto list = nlohmann::json::parse(ok("checkpoint list " + (folder / "run") + " --json"));
  REQUIRE(list.size() == 2);
  CHECK(list[0]["step"] == 6);
  CHECK(list[1]["step"] == 4);
  const auto inspected = nlohmann::json::parse(ok("checkpoint inspect " + (folder / "run") + " --json"));
  CHECK(inspected["samples"] == 24);
  CHECK(inspected["tensors"].contains("exp_avg.wte.weight"));
  CHECK(ok("checkpoint verify " + (folder / "run")).find("step_4: whole") != std::string::npos);

  ok("checkpoint export " + (folder / "run") + " --out " + (folder / "plain"));
  CHECK(run_zrt("checkpoint export " + (folder / "run") + " --out " + (folder / "plain")).code == 1);
  const std::string importing = ok("checkpoint import " + (folder / "plain") + " --out " + (folder / "imported"));
  CHECK(importing.find(" MiB of host memory at once\n") != std::string::npos);
  const std::string data = " --json --data " + (folder / "corpus/validation");
  const double imported = nlohmann::json::parse(ok("eval " + (folder / "imported") + data))["loss"];
  CHECK(imported == Approx(nlohmann::json::parse(ok("eval " + (folder / "run/checkpoints/step_6") + data))["loss"]
                               .get<double>()));  // on other numbers of ranks
  // Weights alone start a new run at step 0; states of another optimizer are refused.
  ok(train + "--resume " + (folder / "imported") + " --out " + (folder / "tuned"));
  // The same without an import: the folder is read where it lies.
  for (const char* alone : {"false", "true"}) {
    const std::string straight = folder / (std::string("straight_") + alone);
    const std::string text =
        ok(train + "--resume " + (folder / "plain") + " --set run.load_module_only=" + alone + " --out " + straight);
    CHECK(text.find("starting with the weights of " + (folder / "plain") + "; to load them a rank holds at most 1.") !=
          std::string::npos);
    CHECK(read_json(straight + "/summary.json")["state_xxh3"] ==
          read_json(folder / "tuned/summary.json")["state_xxh3"]);
  }
  const Result larger = run_zrt(train + "--set model.layers=3 --set model.sequence=64 --resume " + (folder / "plain") +
                                " --out " + (folder / "larger"));
  CHECK(larger.code == 2);
  CHECK(larger.text.find("model.sequence is 64 but its config.json has 32") != std::string::npos);
  CHECK(larger.text.find("model.layers is 3 but its config.json has 2") != std::string::npos);
  fs::rename(folder.path / "plain/config.json", folder.path / "plain/config");
  CHECK(run_zrt(train + "--resume " + (folder / "plain") + " --out " + (folder / "none"))
            .text.find("plain: has no config.json") != std::string::npos);
  const Result other =
      run_zrt(train + "--set optimizer.type=Lion --resume " + (folder / "run") + " --out " + (folder / "lion"));
  CHECK(other.code == 2);
  CHECK(other.text.find("run.load_module_only") != std::string::npos);
  ok(train + "--set optimizer.type=Lion --set run.load_module_only=true --resume " + (folder / "run") + " --out " +
     (folder / "lion"));
  // Nor does a run start behind whole checkpoints of its folder, where it would be lost to the next --resume auto.
  const Result behind =
      run_zrt(train + "--resume " + (folder / "run/checkpoints/step_4") + " --out " + (folder / "run"));
  CHECK(behind.code == 2);
  CHECK(behind.text.find("step 6") != std::string::npos);
  const Result launched = run_zrt("launch " + (folder / "good.json") + " --set run.resume=" + (folder / "run") +
                                  " --out " + (folder / "launched"));
  CHECK(launched.code == 2);
  CHECK(launched.text.find("run.resume") != std::string::npos);
  CHECK(run_zrt(train + "--set run.seed=77 --steps 8 --resume " + (folder / "run") + " --out " + (folder / "seed"))
            .text.find("run.seed") != std::string::npos);
  ok("checkpoint export " + (folder / "run") + " --out " + (folder / "slash/"));
  for (const char* arguments : {"checkpoint", "checkpoint lst x", "checkpoint export x", "checkpoint import x"}) {
    CHECK(run_zrt(arguments).code == 2);
  }
}

TEST_CASE("bf16 gradients travel in fp32 when asked, at every stage, with the same bits") {
  const Folder folder("wire");
  build_data(folder);
  folder.write("good.json", folder.config());
  std::string expected;
  for (const char* stage : {"0", "1", "2", "3"}) {
    const Result result = run_zrt("train " + (folder / "good.json") +
                                  " --ranks 2 --set bf16.enabled=true --set communication_data_type=fp32"
                                  " --set zero_optimization.stage=" +
                                  stage + " --out " + (folder / stage));
    INFO(stage << "\n" << result.text);
    REQUIRE(result.code == 0);
    const std::string state = read_json(folder / (std::string(stage) + "/summary.json"))["state_xxh3"];
    if (expected.empty()) expected = state;
    CHECK(state == expected);
  }
}

}  // namespace zrt::run_commands_test

// The model from a folder, as commands take it: `zrt train` from config.json and back, `zrt plan` of a folder alone.
#include "program.h"
#include "tests/data_folder.h"

namespace zrt::model_folder_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

std::string golden(const std::string& name) {
  return zrt::test::data_folder() + "/hugging_face/" + name;
}

bool has(const std::string& text, const std::string& part) {
  INFO(text << "\nlacks: " << part);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

// Returns a plan's counts from its JSON, without the log's lines.
json planned(const std::string& arguments) {
  const Result result = run_command("(" ZRT_BINARY_DIR "/zrt plan --json " + arguments + " 2>/dev/null)");
  INFO(arguments << "\n" << result.text);
  REQUIRE(result.code == 0);
  return json::parse(result.text);
}

}  // namespace

TEST_CASE("a plan of a folder alone is that of the settings it names, and --set changes them") {
  const Folder folder("plan_folder");
  folder.write("plan.json", R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
      "zero_optimization": {"stage": 3}, "optimizer": {"type": "AdamW"}, "model": {"from": ")" +
                                golden("llama") + R"("}})");
  const json typed = planned((folder / "plan.json") + " --ranks 2");
  CHECK(planned(golden("llama") + " --ranks 2") == typed);
  CHECK(planned("--model " + golden("llama") + " --ranks 2") == typed);
  const Result text = run_zrt("plan " + golden("llama") + " --ranks 2");
  CHECK(text.code == 0);
  has(text.text, "AdamW in bf16 with fp32 masters at ZeRO stage 3, with one sample at a time on a rank and samples as");
  has(text.text, "llama/config.json (model.from): llama, layers 2, hidden 24");
  has(run_zrt("plan " + golden("llama")).text, "at ZeRO stage 0");
  CHECK(planned(golden("llama") + " --ranks 2 --set zero_optimization.stage=1") != typed);
  CHECK(planned((folder / "plan.json") + " --ranks 2 --model " + golden("llama_tied")) != typed);
}

TEST_CASE("a plan of a model that reads long texts takes samples of 4096 tokens and says so") {
  const Folder folder("plan_long");
  json config = read_json(golden("llama") + "/config.json");
  config["max_position_embeddings"] = 131072;
  folder.write("config.json", config.dump());
  const Result text = run_zrt("plan " + folder.path.string());
  CHECK(text.code == 0);
  has(text.text, "samples of 4096 tokens");
  has(text.text, "model.sequence = 4096 (" + folder.path.string() + ":1) replaces 131072 of ");
  CHECK(planned(folder.path.string() + " --set model.sequence=512") != planned(folder.path.string()));
}

TEST_CASE("a plan of nothing, of two folders, and of a folder without a model is refused with what to name") {
  const Folder folder("plan_nothing");
  const auto refused = [](const std::string& arguments, const std::string& part) {
    const Result result = run_zrt("plan " + arguments);
    CAPTURE(arguments);
    CHECK(result.code != 0);
    has(result.text, part);
  };
  refused("", "CONFIG is missing; usage: zrt plan CONFIG, or zrt plan DIR");
  refused(golden("llama") + " --model " + golden("gpt2"), "of which model is the plan to be?");
  refused(folder.path.string(), "has neither config.json, as folders of Hugging Face have, nor a checkpoint of zrt");
  refused("--model " + (folder / "none"), "none: is no folder");
}

TEST_CASE("a run from a folder types no size, goes on by itself, and is read without the folder") {
  const Folder folder("model_from_run");
  build_data(folder);
  // A folder of a model that knows bytes.
  json first = json::parse(folder.config());
  first["run"]["out"] = folder / "first", first["run"]["steps"] = 1;
  folder.write("first.json", first.dump());
  REQUIRE(run_zrt("train " + (folder / "first.json") + " --ranks 2").code == 0);
  REQUIRE(run_zrt("checkpoint export " + (folder / "first") + " --out " + (folder / "plain")).code == 0);

  json config = json::parse(folder.config());
  const json typed = config["model"];
  const auto train = [&](const json& model, const std::string& out, const std::string& more) {
    config["model"] = model, config["run"]["out"] = folder / out;
    folder.write("run.json", config.dump());
    const Result result = run_zrt("train " + (folder / "run.json") + " --ranks 2 " + more);
    INFO(result.text);
    REQUIRE(result.code == 0);
    return result.text;
  };
  const auto state = [&](const std::string& out) { return read_json(folder / (out + "/summary.json"))["state_xxh3"]; };
  const std::string resume = "--steps 4 --resume " + (folder / "plain");
  train(typed, "typed", resume);
  const std::string said = train(json::object(), "short", resume);
  has(said, "info: the model is that of " + (folder / "plain") + "/config.json (run.resume): gpt2, layers 2");
  CHECK(state("short") == state("typed"));
  // The shape alone: the weights are new.
  train({{"from", folder / "plain"}}, "shape", "--steps 4");
  train(typed, "scratch", "--steps 4");
  CHECK(state("shape") == state("scratch"));
  CHECK(state("shape") != state("typed"));

  fs::remove_all(folder / "plain");
  train(typed, "typed", "--steps 6 --resume auto");
  train(json::object(), "short", "--steps 6 --resume auto");
  CHECK(state("short") == state("typed"));
  train(typed, "scratch", "--steps 6 --resume auto");
  has(train({{"from", folder / "plain"}}, "shape", "--steps 6 --resume auto"),
      "/plain\" (" + (folder / "run.json") +
          ":1) is gone; the sizes of the model are those of the checkpoint that "
          "run.resume = \"auto\" goes on from");
  CHECK(state("shape") == state("scratch"));
  const Result fresh = run_zrt("train " + (folder / "run.json") + " --out " + (folder / "fresh") + " --resume auto");
  CHECK(fresh.code == 2);
  has(fresh.text, "plain: is no folder");
  train(json::object(), "short", "--steps 6 --resume auto");
  const Result evaluated = run_zrt("eval " + (folder / "short"));
  INFO(evaluated.text);
  CHECK(evaluated.code == 0);
  CHECK(run_zrt("generate " + (folder / "short") + " --tokens 4 --prompt line").code == 0);
  const json resolved = read_json(folder / "short/config.resolved.json")["model"];
  CHECK(resolved["hidden"] == json{{"value", 64}, {"from", "folder"}});
  const Result missing =
      run_zrt("train " + (folder / "run.json") + " --out " + (folder / "other") + " --resume " + (folder / "plain"));
  CHECK(missing.code == 2);
  has(missing.text, "plain: is no folder");
}

}  // namespace zrt::model_folder_test

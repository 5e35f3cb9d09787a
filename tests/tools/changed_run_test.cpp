// A run that goes on with other keys: what the checkpoint decides, what the keys do, and what is told.
#include "program.h"

namespace zrt::changed_run_test {

using namespace zrt::testing;
using nlohmann::json;

namespace {

std::string config(const Folder& folder) {
  build_data(folder);
  folder.write("run.json", json{{"train_batch_size", 4},
                                {"train_micro_batch_size_per_gpu", 1},
                                {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 0.001}}}}},
                                {"model", {{"preset", "llama-tiny"}}},
                                {"data", {{"train", folder / "corpus/train"}}},
                                {"run", {{"steps", 2}}}}
                               .dump());
  return folder / "run.json";
}

Result train(const Folder& folder, const std::string& run, const std::string& more, int code = 0) {
  const Result result = run_zrt("train " + (folder / "run.json") + " --out " + (folder / run) + " " + more);
  INFO(more << "\n" << result.text);
  REQUIRE(result.code == code);
  return result;
}

double last_scale(const Folder& folder, const std::string& run) {
  std::ifstream in(folder / (run + "/metrics.jsonl"));
  std::string line, last;
  while (std::getline(in, line)) last = line;
  return json::parse(last)["loss_scale"];
}

}  // namespace

TEST_CASE("fp16 goes on with a static scale that is asked for, and begins one where the checkpoint has none") {
  const Folder folder("scales");
  config(folder);
  const std::string fp16 = " --set fp16.enabled=true", on = " --resume auto --steps ";
  train(folder, "run", "");
  train(folder, "run", on + "3" + fp16);
  CHECK(last_scale(folder, "run") >= 16384);  // 2^16 at first, halved by overflows
  train(folder, "run", on + "4" + fp16 + " --set fp16.loss_scale=64");
  CHECK(last_scale(folder, "run") == 64);
  train(folder, "run", on + "5" + fp16 + " --set fp16.loss_scale=512");
  CHECK(last_scale(folder, "run") == 512);
  train(folder, "run", on + "6" + fp16 + " --set fp16.initial_scale_power=9");
  CHECK(last_scale(folder, "run") == 512);
  train(folder, "run", on + "7" + fp16 + " --set fp16.initial_scale_power=13 --set fp16.min_loss_scale=4096");
  CHECK(last_scale(folder, "run") == 4096);
}

TEST_CASE("a start that has nothing left to train leaves the configuration of what was trained") {
  const Folder folder("nothing_left");
  config(folder);
  train(folder, "run", "");
  const json before = read_json(folder / "run/config.resolved.json");
  train(folder, "run", "--resume auto --ranks 2 --set zero_optimization.stage=2 --set optimizer.params.lr=0.5");
  CHECK(read_json(folder / "run/config.resolved.json") == before);
  train(folder, "run", "--resume auto --steps 3 --set optimizer.params.lr=0.5");
  CHECK(read_json(folder / "run/config.resolved.json")["optimizer"]["params"]["lr"]["value"] == 0.5);
}

TEST_CASE("momentum that a checkpoint lacks is refused with its keys, and momentum that is given up is told of") {
  const Folder folder("momentum");
  config(folder);
  const std::string sgd = " --set optimizer.type=SGD", momentum = " --set optimizer.params.momentum=0.9";
  train(folder, "run", sgd);
  CHECK_THAT(train(folder, "run", sgd + momentum + " --resume auto --steps 3", 2).text,
             Catch::Contains("is to be updated by SGD, which keeps 'momentum_buffer'") &&
                 Catch::Contains("run.load_module_only"));
  train(folder, "other", sgd + momentum);
  CHECK_THAT(train(folder, "other", sgd + " --resume auto --steps 3").text,
             Catch::Contains("optimizer states are dropped, the first 'momentum_buffer."));
}

}  // namespace zrt::changed_run_test

// memory.update_when from outside: a run whose updates are made in the next step evaluates, saves, resumes and ends as
// one whose updates wait for the norm.
#include <fstream>

#include "program.h"

namespace zrt::update_when_test {

using namespace zrt::testing;

namespace {

std::string train(const Folder& folder, const std::string& more) {
  folder.write("empty.json", "{}");
  return std::string(ZRT_BINARY_DIR) + "/zrt train " + (folder / "empty.json") +
         " --ranks 2 --set model.preset=gpt2-tiny --set model.layers=4 --set train_micro_batch_size_per_gpu=2" +
         " --set bf16.enabled=true --set zero_optimization.stage=2 --set gradient_clipping=0.5" +
         " --set data.train=" + (folder.path / "corpus/train").string() +
         " --set data.validation=" + (folder.path / "corpus/train").string() +
         " --set run.steps=7 --set run.eval_interval=2 --set run.eval_batches=2 --set run.checkpoint_interval=3 " +
         "--set run.keep_last=20 --set memory.nvme_path=" + folder.path.string() + " " + more;
}

std::string lines_of(const fs::path& path, const char* key) {
  std::string all;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) all += nlohmann::json::parse(line).at(key).dump() + " ";
  return all;
}

// The held-out loss of the last checkpoint.
std::string evaluated(const Folder& folder, const fs::path& run) {
  const Result result = run_command(std::string(ZRT_BINARY_DIR) + "/zrt eval " + run.string() + " --json --data " +
                                    (folder.path / "corpus/train").string());
  INFO(result.text);
  REQUIRE(result.code == 0);
  return nlohmann::json::parse(result.text.substr(result.text.find('{')))["loss"].dump();
}

void check_same(const fs::path& a, const fs::path& b) {
  CHECK(read_json(a / "summary.json")["state_xxh3"] == read_json(b / "summary.json")["state_xxh3"]);
  for (const char* key : {"loss", "grad_norm"}) {
    CHECK(lines_of(a / "metrics.jsonl", key) == lines_of(b / "metrics.jsonl", key));
  }
  CHECK(lines_of(a / "evaluations.jsonl", "loss") == lines_of(b / "evaluations.jsonl", "loss"));
}

}  // namespace

TEST_CASE(
    "updates in the next step change no figure of a run that evaluates, saves and resumes, and keep to the plan") {
  const Folder folder("update_when");
  build_data(folder);
  const fs::path waiting = folder.path / "waiting";
  REQUIRE(run_command(train(folder, "--out " + waiting.string())).code == 0);
  for (const char* placement : {"device", "host", "nvme"}) {
    const std::string late = std::string("--set memory.update_when=next_forward --set memory.placement=") + placement;
    const fs::path out = folder.path / placement;
    const Result result = run_command(train(folder, late + " --out " + out.string()));
    INFO(placement << "\n" << result.text);
    REQUIRE(result.code == 0);
    check_same(out, waiting);
    CHECK(evaluated(folder, out) == evaluated(folder, waiting));  // saved while nothing else runs
    const nlohmann::json memory = read_json(out / "memory.json");
    for (const auto& rank : memory.at("ranks")) {
      for (const auto& [name, tier] : rank.at("tiers").items()) {
        CHECK(tier.at("planned_peak_bytes") == tier.at("measured_peak_bytes"));
      }
    }
    for (const char* step : {"step_6", "step_7"}) fs::remove_all(out / "checkpoints" / step);
    const Result again = run_command(train(folder, late + " --resume auto --out " + out.string()));
    INFO(again.text);
    REQUIRE(again.code == 0);
    CHECK(again.text.find("going on after step 3") != std::string::npos);
    check_same(out, waiting);
  }
}

TEST_CASE(
    "a run goes on with another memory.update_when, and delinks with updates in the next step, to the same bits") {
  const Folder folder("update_when_changed");
  build_data(folder);
  const fs::path waiting = folder.path / "waiting", late = folder.path / "late";
  const std::string delinks = "--set pseudo_to_real.delink.at_step=4 ";
  // No evaluation lies between a step and the save behind it.
  const std::string shares = "--set run.eval_interval=0 --set pseudo_to_real.groups=1 " + delinks;
  REQUIRE(run_command(train(folder, shares + "--out " + waiting.string())).code == 0);
  const std::string next = "--set memory.update_when=next_forward --set memory.placement=host ";
  REQUIRE(run_command(train(folder, shares + next + "--out " + late.string())).code == 0);
  check_same(late, waiting);
  for (int step = 4; step <= 7; ++step) fs::remove_all(late / "checkpoints" / ("step_" + std::to_string(step)));
  const Result again = run_command(train(folder, shares + "--resume auto --out " + late.string()));
  INFO(again.text);
  REQUIRE(again.code == 0);
  check_same(late, waiting);
}

}  // namespace zrt::update_when_test

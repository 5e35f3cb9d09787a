// Runs whose states are resident in the host tier or in the NVMe tier, from outside.
#include "program.h"

namespace zrt::placed_test {

using namespace zrt::testing;

TEST_CASE("Every command works on a run whose states are resident outside of the device, with the same results") {
  const Folder folder("placed");
  build_data(folder);
  folder.write("c.json", folder.config());
  const auto command = [&](const std::string& line) {
    const Result result = run_zrt(line);
    INFO(line << "\n" << result.text);
    REQUIRE(result.code == 0);
    return result.text;
  };
  std::string state, text;
  double loss = 0;
  for (const std::string tier : {"device", "host", "nvme"}) {
    const std::string run = folder / tier, scratch = folder / ("scratch-" + tier);
    fs::create_directories(scratch);
    const std::string sets = " --ranks 2 --set run.checkpoint_interval=2 --set memory.placement=" + tier +
                             " --set memory.nvme_path=" + scratch + " --out " + run;
    const std::string train = "train " + (folder / "c.json") + sets;
    command(train + " --steps 4");
    if (tier == "nvme") {
      const auto planned = read_json(run + "/memory.json")["ranks"][0]["tiers"];
      CHECK(planned["nvme"]["measured_peak_bytes"] == planned["nvme"]["planned_peak_bytes"]);
      CHECK(planned["nvme"]["planned_peak_bytes"] > 0);
    }
    command(train + " --steps 6 --resume auto");
    const auto summary = read_json(run + "/summary.json");
    const auto& moved = summary["moved_bytes"];
    CHECK((moved["to_device"] > 0) == (tier != "device"));
    CHECK((moved["to_host"] > 0) == (tier != "device"));
    CHECK((moved["nvme_read"] > 0) == (tier == "nvme"));
    CHECK((moved["nvme_written"] > 0) == (tier == "nvme"));
    CHECK(fs::is_empty(scratch));
    const auto evaluated = nlohmann::json::parse(command("eval " + run + " --json"));
    CHECK(evaluated["loss"] == summary["validation"]["loss"]);
    const std::string words = command("generate " + run + " --prompt li --tokens 8 --seed 3 --json");
    command("checkpoint verify " + run);
    if (tier == "device") state = summary["state_xxh3"], text = words, loss = evaluated["loss"];
    CHECK(summary["state_xxh3"] == state);
    CHECK(evaluated["loss"] == loss);
    CHECK(words == text);
    CHECK(fs::is_empty(scratch));
  }
}

TEST_CASE("A run whose memory holds no copies says that it stands still for its checkpoints, and saves them") {
  const Folder folder("standing");
  build_data(folder);
  folder.write("c.json", folder.config());
  const std::string sets =
      (folder / "c.json") + " --ranks 2 --set run.checkpoint_interval=2 --set memory.host_budget_bytes=1000";
  const Result plan = run_zrt("plan " + sets);
  INFO(plan.text);
  CHECK(plan.code == 0);
  CHECK(plan.text.find("while training stands still") != std::string::npos);
  const Result result = run_zrt("train " + sets + " --set run.keep_last=3");
  INFO(result.text);
  REQUIRE(result.code == 0);
  CHECK(result.text.find("training stands still while checkpoints are written") != std::string::npos);
  CHECK(read_json(folder / "run/summary.json")["saves"] == 3);
}

TEST_CASE("A run has the same weights however many layers are on the device at a time, and measures what was planned") {
  const Folder folder("sliding");
  build_data(folder);
  folder.write("c.json", R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.003}},
  "model": {"type": "gpt2", "layers": 5, "hidden": 32, "heads": 2, "sequence": 16, "vocab": 257},
  "data": {"train": ")" + (folder / "corpus/train") +
                             R"(", "validation": ")" + (folder / "corpus/train") +
                             R"("}, "run": {"steps": 3, "eval_batches": 1}})");
  unsigned number = 0;
  struct Seen {
    nlohmann::json state, loss;
    uint64_t device_bytes;
  };
  const auto train = [&](const std::string& sets) {
    const std::string out = folder / ("run" + std::to_string(number++));
    const Result result = run_zrt("train " + (folder / "c.json") + sets + " --out " + out);
    INFO(sets << "\n" << result.text);
    REQUIRE(result.code == 0);
    const Result evaluated = run_zrt("eval " + out + " --json");
    INFO(evaluated.text);
    REQUIRE(evaluated.code == 0);
    const nlohmann::json summary = read_json(out + "/summary.json"), memory = read_json(out + "/memory.json");
    CHECK(nlohmann::json::parse(evaluated.text)["loss"] == summary["validation"]["loss"]);
    for (const auto& rank : memory["ranks"]) {
      for (const auto& tier : rank["tiers"]) CHECK(tier["measured_peak_bytes"] == tier["planned_peak_bytes"]);
    }
    return Seen{summary["state_xxh3"], summary["validation"]["loss"],
                memory["ranks"][0]["tiers"]["device"]["planned_peak_bytes"]};
  };
  for (int stage = 0; stage < 4; ++stage) {
    const std::string type = stage % 2 ? "true" : "false", host = " --set memory.placement=host";
    const std::string base = " --ranks 2 --set bf16.enabled=" + type +
                             " --set zero_optimization.stage=" + std::to_string(stage) +
                             (stage == 2 ? " --set memory.recompute=full" : "");
    const Seen plain = train(base);
    std::map<int, uint64_t> bytes;  // by layers that have room on the device
    for (const auto& [layers, moved, ahead] : std::vector<std::tuple<int, int, bool>>{
             {1, 1, false}, {2, 1, false}, {2, 2, true}, {3, 1, true}, {5, 2, true}}) {
      const Seen sliding = train(base + host + " --set memory.device_layers=" + std::to_string(layers) +
                                 " --set memory.moved_layers=" + std::to_string(moved) +
                                 (ahead ? "" : " --set zero_optimization.stage3_prefetch_bucket_size=0"));
      INFO("stage " << stage << ", layers " << layers << ", moved " << moved << ", ahead " << ahead);
      CHECK(sliding.state == plain.state);
      CHECK(sliding.loss == plain.loss);
      const int room = layers + (ahead ? moved : 0);
      if (layers < 5 && !bytes.emplace(room, sliding.device_bytes).second) CHECK(bytes[room] == sliding.device_bytes);
    }
    CHECK(bytes.size() == 3);
    CHECK(bytes.begin()->second < bytes.rbegin()->second);
  }
}

}  // namespace zrt::placed_test

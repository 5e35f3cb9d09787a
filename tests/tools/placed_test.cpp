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

}  // namespace zrt::placed_test

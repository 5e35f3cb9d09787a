// The ways in which processes reach each other's GPUs: in place, or by NCCL, where they cannot or where they are told
// to.
#include "run_of_processes.h"

namespace zrt::gpu_ways_test {
namespace {

using namespace testing;

const std::string program = std::string(ZRT_BINARY_DIR) + "/zrt ";

Result apart(const std::string& arguments) {
  return run_command("ZRT_EMULATED_PEERS=0 " + program + arguments);
}

TEST_CASE("where GPUs cannot read each other's memory processes take NCCL, and zrt launch threads", "[long]") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("gpus_apart");
  const Result connected = run_zrt("ranks 2 " + folder.run("connected", ""));
  REQUIRE(connected.code == 0);
  const Result processes = apart("ranks 2 " + folder.run("processes", ""));
  INFO(processes.text);
  REQUIRE(processes.code == 0);
  CHECK_THAT(processes.text, Catch::Contains("GPUs 0 and 1 cannot read each other's memory\n") &&
                                 Catch::Contains("all groups of GPUs take NCCL\n"));
  CHECK(state_of(folder / "processes") == state_of(folder / "connected"));
  check_measured_memory(folder / "processes");
  const Result launched =
      apart("launch " + (folder / "config.json") + device() + " --ranks 2 --out " + (folder / "launched"));
  INFO(launched.text);
  CHECK(launched.code == 0);
  CHECK_THAT(launched.text, Catch::Contains("launch: GPUs 0 and 1 cannot read each other's memory: ranks are threads"));
  CHECK(state_of(folder / "launched") == state_of(folder / "connected"));
}

TEST_CASE("where neither memory nor NCCL connects GPUs processes are refused, and told of threads") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("gpus_unconnected");
  const Result refused =
      run_command("ZRT_EMULATED_NCCL=missing ZRT_EMULATED_PEERS=0 " + program + "ranks 2 " + folder.run("run", ""));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text,
             Catch::Contains("GPUs 0 and 1 cannot read each other's memory, as processes would have to, and NCCL "
                             "cannot connect them: NCCL cannot be loaded") &&
                 Catch::Contains("Or let the 2 ranks be threads of one process"));
  CHECK_FALSE(fs::exists(folder / "run/metrics.jsonl"));
  for (const std::string ranks : {"ranks 2 ", ""}) {
    const Result asked = run_command("ZRT_EMULATED_NCCL=missing " + program + ranks +
                                     folder.run("asked", std::string("--transport nccl")));
    INFO(asked.text);
    CHECK(asked.code == 2);
    CHECK_THAT(asked.text, Catch::Contains("NCCL cannot be loaded"));
    CHECK_FALSE(fs::exists(folder / "asked"));
  }
}

TEST_CASE("a rank that is stopped is named where NCCL connects all, and none that waits for it", "[long]") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("nccl_stopped", 400);
  const pid_t launcher =
      start_zrt("ranks 4 " + folder.run("run", "--transport nccl --set parallel.tensor=2 --set run.timeout_seconds=4"),
                folder / "log");
  REQUIRE(comes_true([&] { return !text_of(folder / "run/metrics.jsonl").empty(); }));
  const pid_t stopped = children_of(launcher).at(1);
  kill(stopped, SIGSTOP);
  CHECK(end_of(launcher) != 0);
  const std::string text = text_of(folder / "log");
  INFO(text);
  CHECK_THAT(text, Catch::Contains(fmt::format("rank 1 (process {}) of the run has not come to the call", stopped)) ||
                       Catch::Contains("which waited for rank 1.") || Catch::Contains("missing ranks: 1;"));
}

TEST_CASE("a plan of groups that take NCCL has the memory of the run") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("nccl_plan");
  const std::string launch =
      "launch " + (folder / "config.json") + device() + " --ranks 2 --out " + (folder / "run") + " -- --transport nccl";
  REQUIRE(run_zrt(launch).code == 0);
  check_measured_memory(folder / "run");
  const auto planned = [&](const std::string& more) {
    const Result plan = run_zrt("plan " + (folder / "config.json") + device() + " --ranks 2 --json" + more);
    INFO(plan.text);
    REQUIRE(plan.code == 0);
    return nlohmann::json::parse(plan.text)["ranks"][0]["tiers"]["device"]["planned_peak_bytes"];
  };
  const auto run = read_json(folder / "run/memory.json")["ranks"][0]["tiers"]["device"]["planned_peak_bytes"];
  CHECK(planned(" --transport nccl") == run);
  CHECK(planned("") < run);
  CHECK_THAT(run_zrt("plan " + (folder / "config.json") + " --transport mpi").text,
             Catch::Contains("--transport of a plan is 'mpi'; legal is nccl"));
}

TEST_CASE("fast sums are NCCL's: near those in the order of ranks, equal in every run, and said in the summary") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("fast_sums");
  const auto run = [&](const std::string& name, const std::string& options) {
    const Result result = run_zrt("ranks 4 " + folder.run(name, options));
    INFO(result.text);
    REQUIRE(result.code == 0);
    return result.text;
  };
  const auto summary = [&](const std::string& name) { return read_json(folder / (name + "/summary.json")); };
  const std::string fast = "--set parallel.sums=fast ", nccl = "--transport nccl ";
  run("ordered", nccl);
  CHECK_THAT(run("fast", nccl + fast), !Catch::Contains("has no effect"));
  run("again", nccl + fast);
  check_measured_memory(folder / "fast");
  CHECK(summary("ordered")["sums"] == "ordered");
  CHECK(summary("fast")["sums"] == "fast");
  CHECK(summary("fast")["comm_bytes"] == summary("ordered")["comm_bytes"]);
  CHECK(state_of(folder / "fast") != state_of(folder / "ordered"));
  CHECK(state_of(folder / "again") == state_of(folder / "fast"));
  // A few steps of roundings in another order.
  CHECK(summary("fast")["final_loss"].get<double>() ==
        Approx(summary("ordered")["final_loss"].get<double>()).epsilon(1e-3));
  CHECK_THAT(run("memory", fast),
             Catch::Contains("parallel.sums = \"fast\" has no effect: NCCL connects no ranks of this run that sum"));
  CHECK(summary("memory")["sums"] == "ordered");
  // Between stages on two hosts NCCL carries messages alone.
  const Result stages = run_zrt("ranks " + two_hosts(folder, 2) +
                                folder.run("stages", fast + "--set parallel.pipeline=2 --set run.share_gpu=true"));
  INFO(stages.text);
  CHECK(stages.code == 0);
  CHECK_THAT(stages.text, Catch::Contains("has no effect"));
  CHECK(summary("stages")["sums"] == "ordered");
  CHECK(state_of(folder / "memory") == state_of(folder / "ordered"));
}

TEST_CASE("processes that share a GPU evaluate and measure over NCCL, too", "[long]") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("nccl_eval");
  REQUIRE(run_zrt(folder.run("run", "--ranks 2 --set run.share_gpu=true")).code == 0);
  const std::string eval = "eval " + (folder / "run") + " --json";
  const Result threads = run_zrt(eval);
  REQUIRE(threads.code == 0);
  const Result nccl = run_command("ZRT_EMULATED_GPUS=1 " + program + "ranks 2 " + eval + " --transport nccl");
  INFO(nccl.text);
  CHECK(nccl.code == 0);
  CHECK_THAT(nccl.text, Catch::Contains(threads.text.substr(threads.text.find('{'))));
  const Result predicted =
      run_command("ZRT_EMULATED_GPUS=1 " + program + "ranks 2 bench predict " + (folder / "config.json") +
                  " --cluster rtx4090 --transport nccl --rounds 1 --set run.device=cuda --set run.share_gpu=true");
  INFO(predicted.text);
  CHECK(predicted.code == 0);
}

TEST_CASE("processes that are fewer than the ranks of a run are told how to evaluate it") {
  const Prepared folder("few_eval");
  REQUIRE(run_zrt(folder.run("run", "--ranks 2")).code == 0);
  const Result few = run_zrt("ranks 1 eval " + (folder / "run"));
  CHECK(few.code == 2);
  CHECK_THAT(few.text,
             Catch::Contains("the run has 2 ranks and 1 process came to evaluate it: start 2, or give --ranks 1"));
  CHECK(run_zrt("ranks 1 eval " + (folder / "run") + " --ranks 1").code == 0);
}

}  // namespace
}  // namespace zrt::gpu_ways_test

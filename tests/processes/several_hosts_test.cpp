// Ranks on GPUs of two hosts, both played by this one: groups inside a host read each other's memory, groups that leave
// it take NCCL, of which the emulated GPU has a stand-in.
#include "run_of_processes.h"

namespace zrt::several_hosts_test {
namespace {

using namespace testing;
using namespace std::chrono_literals;

std::string settings(const std::string& words) {
  return sets_of(words + " run.share_gpu=true");  // the first of each host have the same
}

// Trains by threads and by `command`, compares, and returns what the latter said.
std::string compare(const Prepared& folder, const std::string& name, int ranks, const std::string& command,
                    const std::string& sets, const std::string& way = "") {
  INFO(ranks << " ranks, " << command << sets);
  const Result threads = run_zrt(folder.run(name + "_threads", fmt::format("--ranks {}{}", ranks, sets)));
  INFO(threads.text);
  REQUIRE(threads.code == 0);
  const Result hosts = run_zrt(command + folder.run(name, sets + way));
  INFO(hosts.text);
  REQUIRE(hosts.code == 0);
  CHECK(state_of(folder / name) == state_of(folder / (name + "_threads")));
  const auto summary = read_json(folder / (name + "/summary.json")),
             expected = read_json(folder / (name + "_threads/summary.json"));
  CHECK(summary["comm_bytes"] == expected["comm_bytes"]);
  check_measured_memory(folder / name);
  return hosts.text;
}

}  // namespace

TEST_CASE("GPUs of two hosts train to the bits of threads, whatever is divided between the hosts and inside them") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("two_hosts");
  const std::vector<std::string> cases{"zero_optimization.stage=3 parallel.tensor=2",
                                       "zero_optimization.stage=1 parallel.pipeline=2 parallel.schedule=zb-h1"};
  const std::string hosts = two_hosts(folder, 2);
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string said = compare(folder, fmt::format("run{}", i), 4, "ranks " + hosts, settings(cases[i]));
    CHECK_THAT(said, Catch::Contains("those that leave it take NCCL"));
  }
}

TEST_CASE("large sums of two hosts with four GPUs each go along the line of hosts to the bits of threads", "[long]") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("line_of_hosts", 2);
  // A layer's sum has 8 · hidden² elements and more: for each rank 256 Ki, of which it saves 8 bytes each, more than
  // 512 KiB for each of three ticks (comm/nccl/host_line.h).
  const std::string hosts = two_hosts(folder, 4);
  compare(folder, "run", 8, "ranks " + hosts,
          settings("model.hidden=512 train_batch_size=8 zero_optimization.stage=2"));
}

TEST_CASE("with --transport nccl all groups take NCCL, GPUs that cannot read each other's memory too", "[long]") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("all_nccl");
  const std::string sets = settings("zero_optimization.stage=3 train_batch_size=9");
  const std::string said = compare(folder, "run", 3, "ranks 3 ", sets, " --transport nccl");
  CHECK_THAT(said, Catch::Contains("all groups of GPUs take NCCL"));
  // The staging of the one group is in the plan, and no memory beside it.
  const auto memory = read_json(folder / "run/memory.json"), threads = read_json(folder / "run_threads/memory.json");
  const auto comm = [](const nlohmann::json& of) {
    return of["ranks"][0]["tiers"]["device"]["categories"]["comm"].get<int64_t>();
  };
  CHECK(comm(memory) == comm(threads) + (2 << 20));
  for (const auto& process : memory["processes"]) CHECK(process["gpu"]["library_bytes"] < 2 << 20);
}

TEST_CASE("one rank with --transport nccl trains to the bits of one without, though its steps are recorded", "[long]") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("one_nccl", 6);
  const Result without = run_zrt(folder.run("without", ""));
  INFO(without.text);
  REQUIRE(without.code == 0);
  const Result with = run_zrt(folder.run("with", "--transport nccl"));
  INFO(with.text);
  REQUIRE(with.code == 0);
  CHECK(state_of(folder / "with") == state_of(folder / "without"));
}

TEST_CASE("a rank that is killed on another host ends the run, which goes on to the bits of a run left alone",
          "[long]") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("hosts_killed", 12);
  const std::string sets = settings("zero_optimization.stage=2 run.checkpoint_interval=2");
  const std::string hosts = "ranks " + two_hosts(folder, 1);
  const Result whole = run_zrt(hosts + folder.run("whole", sets));
  INFO(whole.text);
  REQUIRE(whole.code == 0);
  const std::string arguments = hosts + folder.run("run", sets) + " --resume auto";
  const pid_t launcher = start_zrt(arguments, folder / "log");
  REQUIRE(comes_true([&] { return fs::exists(folder / "run/checkpoints/step_2/manifest.json"); }));
  const std::vector<pid_t> agents = children_of(launcher);
  REQUIRE(agents.size() == 2);
  kill(children_of(agents[1]).at(0), SIGKILL);
  CHECK(end_of(launcher) != 0);
  CHECK_THAT(text_of(folder / "log"), Catch::Contains("rank 1 (process"));
  const Result again = run_zrt(arguments);
  INFO(again.text);
  REQUIRE(again.code == 0);
  CHECK(state_of(folder / "run") == state_of(folder / "whole"));
}

// NCCL holds the ranks of the other host, which cannot know for whom.
TEST_CASE("a rank that is stopped on another host is named by the rank beside it, whom NCCL keeps waiting is not") {
  if (!ZRT_EMULATED) return;
  const Prepared folder("hosts_stopped", 400);
  const std::string sets = settings("parallel.tensor=2 run.timeout_seconds=4");
  const pid_t launcher = start_zrt("ranks " + two_hosts(folder, 2) + folder.run("run", sets), folder / "log");
  REQUIRE(comes_true([&] { return !text_of(folder / "run/metrics.jsonl").empty(); }));
  const std::vector<pid_t> agents = children_of(launcher);
  REQUIRE(agents.size() == 2);
  const pid_t stopped = children_of(agents[1]).at(1);
  kill(stopped, SIGSTOP);
  const auto struck = std::chrono::steady_clock::now();
  CHECK(end_of(launcher) != 0);
  // The time-out and five seconds, on a machine that is busy with others: three times that.
  CHECK(std::chrono::steady_clock::now() - struck < 27s);
  const std::string text = text_of(folder / "log");
  INFO(text);
  CHECK_THAT(text, Catch::Contains("timed out after 4000 ms"));
  const bool beside = text.find("group tp[2-3]") != std::string::npos &&
                      (text.find("missing ranks: 1;") != std::string::npos ||
                       text.find(fmt::format("that of rank 1 (process {})", stopped)) != std::string::npos);
  const bool between_steps = text.find("an exchange between all 4 processes timed out") != std::string::npos &&
                             text.find("which waited for rank 3.") != std::string::npos;
  CHECK((beside || between_steps));
  CHECK_THAT(text, !Catch::Contains("cannot go on"));
}

}  // namespace zrt::several_hosts_test

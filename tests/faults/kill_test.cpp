// Ranks that are killed at random moments: the run is started again and ends with the bits of one that was not.
#include "faults/process.h"

namespace zrt::kill_test {

using namespace zrt::testing;

namespace {

const std::string interval = " --set run.checkpoint_interval=10";

// Kills a random process of the run, once, at a random moment after its first step. Whether it was still there.
bool kill_once(const RepeatedRun& run, const std::string& command, Moments& moments) {
  run.reset();
  Process process(command, run.log());
  run.await_moment(process, moments);
  const auto ranks = process.ranks();
  const bool killed = !ranks.empty() && kill(ranks[moments.below(ranks.size())], SIGKILL) == 0;
  const int code = process.wait();
  INFO("seed " << moments.seed << "\n" << process.text());
  REQUIRE(code == 0);
  run.check_end();
  return killed && contains(process.text(), "launch: restart");
}

void kill_often(const RepeatedRun& run, const std::string& command, int times) {
  Moments moments;
  repeat(times, [&](int) { return kill_once(run, command, moments); });
}

}  // namespace

TEST_CASE("a run of threads killed at a random moment is started again and ends with the same bits") {
  const RepeatedRun run("kill_threads", interval, 100);
  kill_often(run, run.launch(), 20);
}

TEST_CASE("a run of processes of which one is killed at a random moment is started again and ends with the same bits") {
  if (no_mpirun()) return;
  const RepeatedRun run("kill_processes", interval, 100);
  kill_often(run, run.launch_mpi(), full_tests() ? 20 : 5);
}

TEST_CASE("a process killed in the middle of its shard costs the run no more than a restart") {
  if (no_mpirun()) return;
  const RepeatedRun run("kill_shard");
  Moments moments;
  for (int turn = 0; turn < (full_tests() ? 20 : 3); ++turn) {
    run.reset();
    fs::remove(run / "struck");
    const Fault fault{"kill", 1 + moments.below(200), "shard-00002", "", false, "ZRT_FAULT_ONCE=" + (run / "struck")};
    Process process(
        run.environment() + with_fault(run.store().string(), fault) + run.launch_mpi().substr(run.environment().size()),
        run.log());
    const int code = process.wait();
    INFO("seed " << moments.seed << ", call " << fault.at << "\n" << process.text());
    REQUIRE(code == 0);
    CHECK(fs::exists(run.path / "struck"));
    CHECK(contains(process.text(), "launch: restart"));
    run.check_end();
  }
}

}  // namespace zrt::kill_test

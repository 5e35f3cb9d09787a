// Ranks that stop and are not dead (SIGSTOP): the others end within the time-out and name the rank and the operation.
#include "faults/process.h"

namespace zrt::stop_test {

using namespace zrt::testing;

namespace {

// The time-out of a collective; a save has ten times as long.
const std::string time_out = " --set run.timeout_seconds=5";

// The survivors name the stopped rank and the call that it did not come to.
void check_named(const std::string& text, size_t rank) {
  CHECK(contains(text, "missing ranks: " + std::to_string(rank)));
  CHECK(contains(text, "timed out after 5000 ms"));
  CHECK(contains(text, "Last calls"));
}

}  // namespace

TEST_CASE("a process stopped at a random moment of training is named in time, and the run starts again") {
  if (no_mpirun()) return;
  const RepeatedRun run("stop_processes", time_out + " --set run.checkpoint_interval=10", 150);
  Moments moments;
  repeat(full_tests() ? 20 : 3, [&](int) {
    run.reset();
    Process process(run.launch_mpi(), run.log());
    run.await_moment(process, moments);
    const auto ranks = process.ranks();
    if (ranks.size() != 2) return false;
    const size_t rank = moments.below(2);
    kill(ranks[rank], SIGSTOP);
    const int code = process.wait();
    INFO("seed " << moments.seed << ", rank " << rank << "\n" << process.text());
    REQUIRE(code == 0);
    run.check_end();
    if (!contains(process.text(), "launch: restart")) return false;  // it had finished
    check_named(process.text(), rank);
    return true;
  });
}

TEST_CASE("a process stopped in the middle of a save ends the run in the time of a collective, not of a disk") {
  if (no_mpirun()) return;
  const RepeatedRun run("stop_save", time_out + " --set run.checkpoint_interval=3");
  Moments moments;
  repeat(full_tests() ? 20 : 2, [&](int) {
    run.reset();
    fs::remove(run / "struck");
    const Fault fault{"stop", 1 + moments.below(60), "shard-00002", "", false, "ZRT_FAULT_ONCE=" + (run / "struck")};
    Process process(run.train_mpi(with_fault(run.store().string(), fault)), run.log());
    const auto struck = [&] { return fs::exists(run.path / "struck"); };
    REQUIRE(await([&] { return struck() || process.ended(); }));
    const int code = process.wait();
    INFO("seed " << moments.seed << ", call " << fault.at << "\n" << process.text());
    CHECK(code == 1);
    if (!struck()) {
      // The machine kept a rank from a call for five seconds.
      REQUIRE(contains(process.text(), "timed out after 5000 ms"));
      run.await_gone();
      return false;
    }
    check_named(process.text(), 1);  // after the time of a collective
    run.await_gone();
    require_whole(run.store());
    const Result again = run_command(run.train());
    INFO(again.text);
    CHECK(again.code == 0);
    run.check_end();
    return true;
  });
}

TEST_CASE("a stopped run of threads is killed by its supervisor and starts again") {
  const RepeatedRun run("stop_threads", " --set run.checkpoint_interval=10", 150);
  Moments moments;
  repeat(full_tests() ? 20 : 2, [&](int) {
    run.reset();
    Process process(run.launch() + " --hang-timeout 4 --start-timeout 60", run.log());
    run.await_step(process, 1 + moments.below(50));
    const auto ranks = process.ranks();
    if (ranks.empty()) return false;
    kill(ranks[0], SIGSTOP);
    const int code = process.wait();
    INFO("seed " << moments.seed << "\n" << process.text());
    REQUIRE(code == 0);
    run.check_end();
    return contains(process.text(), "no sign of life");
  });
}

TEST_CASE("processes that all stop are ended through their launcher, which leaves nothing behind") {
  if (no_mpirun()) return;
  const RepeatedRun run("stop_all", " --set run.checkpoint_interval=10", 150);
  Moments moments;
  repeat(full_tests() ? 20 : 2, [&](int) {
    run.reset();
    Process process(run.launch_mpi() + " --hang-timeout 4 --start-timeout 60", run.log());
    run.await_step(process, 1 + moments.below(50));
    const auto ranks = process.ranks();
    for (const pid_t rank : ranks) kill(rank, SIGSTOP);
    const int code = process.wait();
    INFO("seed " << moments.seed << "\n" << process.text());
    REQUIRE(code == 0);
    run.check_end();
    return ranks.size() == 2 && contains(process.text(), "no sign of life");
  });
}

TEST_CASE("a thread whose disk hangs in a save ends the run after the save's time-out, with the rank named") {
  const RepeatedRun run("hang_disk", " --set run.checkpoint_interval=3 --set run.timeout_seconds=3");
  const Fault fault{"hang", 5, "shard-00002"};
  Process process(with_fault(run.store().string(), fault) + run.train(), run.log());
  const int code = process.wait();
  INFO(process.text());
  CHECK(code == 1);
  CHECK(contains(process.text(), "rank 1 is not done with \"files written\" after 30000 ms"));
  CHECK(contains(process.text(), "is stuck"));
  CHECK(run_command(run.train()).code == 0);
  run.check_end();
}

}  // namespace zrt::stop_test

// SIGUSR1 saves and goes on, SIGTERM saves and stops; among several processes SIGTERM only tells and ends.
#include "faults/process.h"

namespace zrt::signals_test {

using namespace zrt::testing;

namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Repeats `turn` until it has struck `times` times: a signal may come after the last step.
void repeat(int times, const std::function<bool(int struck)>& turn) {
  int struck = 0;
  for (int tries = 0; struck < times && tries < 4 * times; ++tries) struck += turn(struck);
  CHECK(struck == times);
}

// Without an interval a save comes from the signal; with 1, a save is nearly always in flight when it arrives.
const std::string no_saves = " --set run.checkpoint_interval=0", always_saves = " --set run.checkpoint_interval=1";

}  // namespace

TEST_CASE("SIGUSR1 at a random moment saves whole and changes nothing else") {
  for (const std::string& interval : {no_saves, always_saves}) {
    const RepeatedRun run("usr1", interval);
    Moments moments;
    repeat(full_tests() ? 20 : 10, [&](int) {
      run.reset();
      Process process(run.train(), run.log());
      run.await_moment(process, moments);
      process.send(SIGUSR1);
      const int code = process.wait(120);
      INFO("seed " << moments.seed << "\n" << process.text());
      REQUIRE(code == 0);
      run.check_end();
      return interval == always_saves || count_of(process.text(), ": saved ") == 2;  // asked for, and the last
    });
  }
}

TEST_CASE("SIGTERM at a random moment saves whole and exits with 3, and the run goes on from there to the same bits") {
  for (const std::string& interval : {no_saves, always_saves}) {
    const RepeatedRun run("term", interval);
    Moments moments;
    repeat(full_tests() ? 20 : 10, [&](int struck) {
      run.reset();
      Process process(run.train(), run.log());
      run.await_moment(process, moments);
      process.send(struck % 2 ? SIGINT : SIGTERM);
      const int code = process.wait(120);
      INFO("seed " << moments.seed << "\n" << process.text());
      if (code == 0) return false;
      REQUIRE(code == 3);
      const auto saved = require_whole(run.store());
      REQUIRE_FALSE(saved.empty());
      CHECK(saved.rbegin()->first == static_cast<int64_t>(run.steps()));
      const Result again = run_command(run.train());
      INFO(again.text);
      CHECK(again.code == 0);
      run.check_end();
      return true;
    });
  }
}

TEST_CASE("signals to launch reach the run: SIGUSR1 saves, SIGTERM saves and ends with 3") {
  const RepeatedRun run("launch_signals", no_saves);
  repeat(2, [&](int) {
    run.reset();
    Process process(run.launch(), run.log());
    run.await_step(process, 2);
    process.send(SIGUSR1);
    run.await_step(process, 8);
    process.send(SIGTERM);
    const int code = process.wait(120);
    INFO(process.text());
    if (code == 0) return false;
    CHECK(code == 3);
    CHECK(contains(process.text(), ": saved "));
    CHECK(count_of(process.text(), "restart:") == 0);
    CHECK(run_command(run.train()).code == 0);
    run.check_end();
    return true;
  });
}

TEST_CASE("under mpirun SIGUSR1 to all or to one process saves at one step of all") {
  if (no_mpirun()) return;
  const RepeatedRun run("mpi_usr1", no_saves);
  Moments moments;
  repeat(full_tests() ? 20 : 4, [&](int turn) {
    run.reset();
    Process process(run.train_mpi(), run.log());
    run.await_step(process, 1 + moments.below(10));
    const auto ranks = process.ranks();
    if (turn % 2 == 0) process.send(SIGUSR1);
    if (turn % 2 == 1 && ranks.size() == 2) kill(ranks[moments.below(2)], SIGUSR1);
    const int code = process.wait(120);
    INFO("seed " << moments.seed << ", turn " << turn << "\n" << process.text());
    REQUIRE(code == 0);
    run.check_end();
    return count_of(process.text(), ": saved ") == 2;
  });
}

TEST_CASE("under mpirun SIGTERM prints the last calls of the ranks and ends at once") {
  if (no_mpirun()) return;
  RepeatedRun run("mpi_term", always_saves);
  const std::string more = run.more;
  const auto steps = [&](int64_t count) {
    run.more = more;
    run.more.replace(more.find("--steps 40"), 10, "--steps " + std::to_string(count));
  };
  Moments moments;
  for (int turn = 0; turn < (full_tests() ? 20 : 4); ++turn) {
    run.reset();
    steps(4000);  // mpirun takes its time
    Process process(run.train_mpi(), run.log());
    run.await_step(process, 1 + moments.below(20));
    const auto ranks = process.ranks();
    const double begin = seconds_now();
    if (turn % 2 == 0) process.send(SIGTERM);
    if (turn % 2 == 1 && ranks.size() == 2) kill(ranks[moments.below(2)], SIGTERM);
    const int code = process.wait(120);
    INFO("seed " << moments.seed << ", turn " << turn << "\n" << process.text());
    CHECK(code == (turn % 2 == 0 ? 1 : 143));  // mpirun's own, or that of a rank
    CHECK(seconds_now() - begin < 40);         // far less than the steps that are left
    CHECK(contains(process.text(), "zrt: SIGTERM: "));
    CHECK(contains(process.text(), "group dp:"));
    CHECK(contains(process.text(), "\" "));  // of a call with its label
    const auto left = require_whole(run.store());
    steps(left.empty() ? 2 : left.rbegin()->first + 2);
    const Result again = run_command(run.train());
    INFO(again.text);
    CHECK(again.code == 0);
    run.check_clean();
  }
}

TEST_CASE("launch asks processes below mpirun to save and stop, which mpirun would not give the time for") {
  if (no_mpirun()) return;
  const RepeatedRun run("launch_mpi_term", no_saves);
  repeat(1, [&](int) {
    run.reset();
    Process process(run.launch_mpi(), run.log());
    run.await_step(process, 2);
    process.send(SIGTERM);
    const int code = process.wait(120);
    INFO(process.text());
    if (code == 0) return false;
    CHECK(code == 3);
    CHECK(contains(process.text(), ": saved "));
    CHECK_FALSE(contains(process.text(), "zrt: SIGTERM"));
    CHECK(run_command(run.train()).code == 0);
    run.check_end();
    return true;
  });
}

}  // namespace zrt::signals_test

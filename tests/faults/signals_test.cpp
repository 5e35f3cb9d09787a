// SIGUSR1 saves and goes on; SIGTERM, SIGINT, SIGHUP, SIGUSR2 and SIGXCPU save and stop, one or several of them at
// once; a later one ends the run.
#include <stdlib.h>

#include "faults/process.h"
#include "runtime/train/launch/stop_signals.h"

namespace zrt::signals_test {

using namespace zrt::testing;

namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
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
      const int code = process.wait();
      INFO("seed " << moments.seed << "\n" << process.text());
      REQUIRE(code == 0);
      run.check_end();
      return interval == always_saves || count_of(process.text(), ": saved ") == 2;  // asked for, and the last
    });
  }
}

TEST_CASE("a signal to stop at a random moment saves whole and exits with 3, and the run goes on to the same bits") {
  for (const std::string& interval : {no_saves, always_saves}) {
    const RepeatedRun run("term", interval);
    Moments moments;
    repeat(full_tests() ? 20 : 10, [&](int struck) {
      run.reset();
      Process process(run.train(), run.log());
      run.await_moment(process, moments);
      process.send(runtime::stop_signals[static_cast<size_t>(struck) % std::size(runtime::stop_signals)]);
      const int code = process.wait();
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
    const int code = process.wait();
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
    const int code = process.wait();
    INFO("seed " << moments.seed << ", turn " << turn << "\n" << process.text());
    REQUIRE(code == 0);
    run.check_end();
    return count_of(process.text(), ": saved ") == 2;
  });
}

TEST_CASE("a stop that comes as several signals within milliseconds, as from timeout, saves and stops as one does") {
  const RepeatedRun run("echoes", no_saves);
  Moments moments;
  const auto echoed = [&](const std::string& command) {
    return [&, command](int) {
      run.reset();
      Process process(command, run.log());
      run.await_moment(process, moments);
      for (const int signal : {SIGTERM, SIGTERM, SIGINT, SIGHUP, SIGTERM}) {
        process.send(signal);
        sleep_for(moments.between(0, 0.002));
      }
      const int code = process.wait();
      INFO("seed " << moments.seed << "\n" << process.text());
      if (code == 0) return false;
      REQUIRE(code == 3);
      CHECK_FALSE(contains(process.text(), "a second signal"));
      CHECK_FALSE(contains(process.text(), "the second, killing"));
      CHECK(require_whole(run.store()).rbegin()->first == static_cast<int64_t>(run.steps()));
      CHECK(run_command(run.train()).code == 0);
      run.check_end();
      return true;
    };
  };
  repeat(full_tests() ? 20 : 6, echoed(run.train()));
  repeat(full_tests() ? 20 : 2, echoed(run.launch()));
}

TEST_CASE("a signal two seconds after the first ends a run that cannot save, at once and with a word") {
  const RepeatedRun run("second", no_saves);
  const Fault hang{"hang", 1, "shard-00001"};
  const std::string faulty = with_fault(run.store().string(), hang);
  const std::string ranks =
      with_fault(run.store().string(), hang) + std::string(ZRT_BINARY_DIR) + "/zrt ranks 2 train " + (run / "c.json");
  for (const std::string& command :
       {faulty + run.train(), faulty + run.launch() + " --hang-timeout 600", ranks + run.more}) {
    run.reset();
    const bool launched = contains(command, "zrt launch"), several = contains(command, "zrt ranks");
    Process process(command, run.log());
    run.await_step(process, 2);
    const double first = seconds_now();
    process.send(SIGTERM);
    REQUIRE(await([&] { return fs::exists(run.store()); }));  // it saves, and never ends that
    REQUIRE(await([&] {
      if (!process.ended()) process.send(SIGTERM);
      return process.ended();
    }));
    CHECK(seconds_now() - first >= 2);
    const int code = process.wait();
    INFO(process.text());
    CHECK(code == (launched || several ? 137 : 143));
    CHECK(contains(process.text(), launched  ? "the second, killing"
                                   : several ? "a second signal: the ranks end at once"
                                             : "a second signal: the run ends at once"));
    CHECK(contains(process.text(), "another signal, two seconds from now or later"));
    CHECK_FALSE(contains(process.text(), "ended with signal"));
    run.await_gone();
  }
}

TEST_CASE("a terminal that is closed ends a run and a supervised run with everything saved, but not under nohup") {
  const RepeatedRun run("terminal", no_saves);
  for (const std::string& command : {run.train(), run.launch()}) {
    repeat(1, [&](int) {
      run.reset();
      const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
      REQUIRE(terminal >= 0);
      REQUIRE(grantpt(terminal) == 0);
      REQUIRE(unlockpt(terminal) == 0);
      const std::string name = ptsname(terminal);
      // A session of its own, whose leader the run becomes: closing the terminal sends it SIGHUP.
      Process process("setsid --ctty sh -c 'exec " + command + " 2>" + (run / "said") + "' <" + name + " >" + name,
                      run.log());
      run.await_step(process, 2);
      close(terminal);
      const int code = process.wait();
      const std::string text = process.text() + read_file(run / "said");
      INFO(text);
      if (code == 0) return false;
      CHECK(code == 3);
      CHECK(require_whole(run.store()).rbegin()->first == static_cast<int64_t>(run.steps()));
      CHECK(run_command(run.train()).code == 0);
      run.check_end();
      return true;
    });
    run.reset();
    Process process("nohup " + command, run.log());
    run.await_step(process, 1);
    process.send(SIGHUP);
    CHECK(process.wait() == 0);
    run.check_end();
  }
}

TEST_CASE("a run whose processor time is nearly up saves and stops, however often the kernel says so") {
  RepeatedRun run("processor_time", no_saves);
  run.more.replace(run.more.find("--steps 40"), 10, "--steps 1000000");
  Process process("sh -c 'ulimit -S -t 3; exec " + run.train() + "'", run.log());
  const int code = process.wait();
  INFO(process.text());
  CHECK(code == 3);
  CHECK(require_whole(run.store()).rbegin()->first == static_cast<int64_t>(run.steps()));
  run.check_clean();
}

TEST_CASE("the warnings of batch systems reach runs of several processes, and are no second signals") {
  for (const std::string launcher : {"zrt ranks", "zrt launch", "mpirun"}) {
    if (launcher == "mpirun" && no_mpirun()) continue;
    RepeatedRun run("batch", no_saves);
    run.more.replace(run.more.find("--steps 40"), 10, "--steps 1000000");
    const std::string ranks = std::string(ZRT_BINARY_DIR) + "/zrt ranks 2 train " + (run / "c.json") + run.more;
    // mpirun passes on SIGUSR2 alone.
    const std::vector<int> warnings =
        launcher == "mpirun" ? std::vector<int>{SIGUSR2} : std::vector<int>{SIGUSR2, SIGXCPU};
    for (const int warning : warnings) {
      run.reset();
      Process process(launcher == "zrt ranks"    ? ranks
                      : launcher == "zrt launch" ? run.launch() + " --processes"
                                                 : run.train_mpi(),
                      run.log());
      run.await_step(process, 2);
      process.send(warning);
      const int code = process.wait();
      INFO(launcher << ", signal " << warning << "\n" << process.text());
      CHECK(code == 3);
      CHECK(require_whole(run.store()).rbegin()->first == static_cast<int64_t>(run.steps()));
      run.await_gone();
    }
  }
}

TEST_CASE("a run whose supervisor or launcher is killed saves and ends, as threads and as processes") {
  const std::string processes = "launch --processes", mpi = "launch --mpi", ranks = "ranks", killed_ranks = "both";
  for (const std::string& form : {std::string("launch"), processes, mpi, ranks, killed_ranks}) {
    if (form == mpi && no_mpirun()) continue;
    RepeatedRun run("killed_supervisor", no_saves);
    run.more.replace(run.more.find("--steps 40"), 10, "--steps 1000000");
    run.reset();
    Process process(form == mpi     ? run.launch_mpi()
                    : form == ranks ? std::string(ZRT_BINARY_DIR) + "/zrt ranks 2 train " + (run / "c.json") + run.more
                                    : run.launch() + (form == "launch" ? "" : " --processes"),
                    run.log());
    run.await_step(process, 2);
    const auto trains = process.ranks();
    CHECK(trains.size() == (form == "launch" ? 1 : 2));
    const auto children = process.children();
    process.send(SIGKILL);
    if (form == killed_ranks) kill(children.at(0), SIGKILL);
    CHECK(process.wait() == 137);
    run.await_gone();
    INFO(form << "\n" << process.text());
    const auto saved = require_whole(run.store());
    REQUIRE_FALSE(saved.empty());
    CHECK(saved.rbegin()->first == static_cast<int64_t>(run.steps()));
    run.more.replace(run.more.find("--steps 1000000"), 15, "--steps " + std::to_string(run.steps() + 2));
    CHECK(run_command(run.train()).code == 0);
  }
}

TEST_CASE("a run that hangs while it saves after its supervisor's end is killed some time later") {
  for (const std::string form : {"", " --processes"}) {
    const RepeatedRun run("hung_orphan", no_saves + " --set run.timeout_seconds=1");
    run.reset();
    Process process(with_fault(run.store().string(), {"hang", 1, "shard-00001"}) + run.launch() + form, run.log());
    run.await_step(process, 2);
    process.send(SIGKILL);
    CHECK(process.wait() == 137);
    INFO(form << "\n" << process.text());
    run.await_gone();
  }
}

TEST_CASE("under mpirun SIGTERM prints the last calls of the ranks, and what is lost costs no checkpoint") {
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
    steps(1000000);  // mpirun takes its time
    Process process(run.train_mpi(), run.log());
    run.await_step(process, 1 + moments.below(20));
    const auto ranks = process.ranks();
    REQUIRE(ranks.size() == 2);
    if (turn % 2 == 0) process.send(SIGTERM);
    if (turn % 2 == 1) kill(ranks[moments.below(2)], SIGTERM);
    const int code = process.wait();
    INFO("seed " << moments.seed << ", turn " << turn << "\n" << process.text());
    CHECK(code == (turn % 2 == 0 ? 1 : 3));  // mpirun's own, or that of the ranks
    CHECK(contains(process.text(), "zrt: SIGTERM: "));
    CHECK(contains(process.text(), "group dp:"));
    CHECK(contains(process.text(), "\" "));  // of a call with its label
    run.await_gone();
    const auto left = require_whole(run.store());
    if (turn % 2 == 1) CHECK(left.rbegin()->first == static_cast<int64_t>(run.steps()));
    steps(left.empty() ? 2 : left.rbegin()->first + 2);
    const Result again = run_command(run.train());
    INFO(again.text);
    CHECK(again.code == 0);
    run.check_clean();
  }
}

TEST_CASE(
    "Ctrl-C to mpirun saves where mpirun leaves the time, and without checkpoints the start says how long that is") {
  if (no_mpirun()) return;
  // mpirun reads nothing while it waits, so a run that prints more than a pipe holds would stand still.
  RepeatedRun run("mpi_time", no_saves + " --set run.log_interval=0");
  const std::string more = run.more;
  const auto steps = [&](size_t count) {
    run.more = more;
    run.more.replace(more.find("--steps 40"), 10, "--steps " + std::to_string(count));
  };
  steps(1000000);
  // Far more time than a save takes; mpirun waits for all of it, before SIGTERM and behind it.
  Process process("env OMPI_MCA_odls_base_sigkill_timeout=15 " + run.train_mpi(), run.log());
  run.await_step(process, 2);
  process.send(SIGINT);
  process.wait();
  run.await_gone();
  INFO(process.text());
  CHECK(contains(process.text(), "mpirun kills its ranks 15 s after it has passed on Ctrl-C"));
  const auto saved = require_whole(run.store());
  REQUIRE_FALSE(saved.empty());
  CHECK(saved.rbegin()->first == static_cast<int64_t>(run.steps()));
  steps(run.steps() + 2);
  const Result again = run_command(run.train());
  INFO(again.text);
  CHECK(again.code == 0);
  CHECK(contains(again.text, "going on after step "));
}

TEST_CASE("launch asks processes below mpirun to save and stop, which mpirun would not give the time for") {
  if (no_mpirun()) return;
  const RepeatedRun run("launch_mpi_term", no_saves);
  repeat(1, [&](int) {
    run.reset();
    Process process(run.launch_mpi(), run.log());
    run.await_step(process, 2);
    process.send(SIGTERM);
    const int code = process.wait();
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

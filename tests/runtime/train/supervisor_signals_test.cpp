// Signals to a supervisor: to save, to stop, several at once, and its own death.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/folder_lock.h"
#include "runtime/train/launch/stop_signals.h"
#include "runtime/train/launch/supervisor.h"
#include "tests/catch.h"
#include "tests/runtime/train/supervised_run.h"

namespace zrt::supervisor_signals_test {

using namespace zrt::runtime;
namespace fs = std::filesystem;
using namespace zrt::supervised_run;

namespace {

// Supervises in a process of its own, which the test may signal.
pid_t supervise_in_child(const Run& run, bool under_nohup = false) {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid > 0) return pid;
  // The process that runs the tests may ignore them, in the background for example, and a shell then cannot trap them.
  for (const int ignored : {SIGINT, SIGHUP}) signal(ignored, SIG_DFL);
  if (under_nohup) signal(SIGHUP, SIG_IGN);
  _exit(supervise(run.options).exit_code);
}

}  // namespace

TEST_CASE("each signal that asks to stop is passed on, waited for, and the run's code passed through") {
  for (const int signal : stop_signals) {
    const Run run("term", {"step:1 wait", "exit:0"});
    const pid_t pid = supervise_in_child(run);
    run.await("ready");
    kill(pid, signal);
    CHECK(exit_code(pid) == 3);
    CHECK(run.starts() == 1);
    CHECK(run.events() == Names{"start", "signal", "exit", "end"});
    run.check_all_gone();
  }
}

TEST_CASE("signals pass by a launcher that would die of them and reach the ranks it started") {
  Run run("ranks", {"step:1 wait", "exit:0"});
  run.options.command.insert(run.options.command.begin(), {"setsid", "--wait"});
  run.options.rank_program = fs::canonical("/bin/sh");
  const pid_t pid = supervise_in_child(run);
  run.await("ready");
  kill(pid, SIGTERM);
  CHECK(exit_code(pid) == 3);
  run.check_all_gone();
}

TEST_CASE("SIGUSR1 is passed on") {
  const Run run("save", {"wait"});
  const pid_t pid = supervise_in_child(run);
  run.await("ready");
  kill(pid, SIGUSR1);
  CHECK(exit_code(pid) == 0);
  CHECK(fs::exists(run.path / "checkpoints/step_9"));
}

TEST_CASE("SIGHUP that is ignored at the start, as under nohup, stays ignored") {
  const Run run("nohup", {"step:1 wait"});
  const pid_t pid = supervise_in_child(run, true);
  run.await("ready");
  kill(pid, SIGHUP);
  kill(pid, SIGUSR1);
  CHECK(exit_code(pid) == 0);
  CHECK(run.events() == Names{"start", "signal", "exit", "end"});  // one signal
}

TEST_CASE("a stop that comes as several signals at once is one, and does not end the supervisor") {
  for (int turn = 0; turn < 5; ++turn) {
    const Run run("echoes", {"step:1 wait", "exit:0"});
    const pid_t pid = supervise_in_child(run);
    run.await("ready");
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGXCPU, SIGTERM}) kill(pid, signal);
    CHECK(exit_code(pid) == 3);
    CHECK(run.events() == Names{"start", "signal", "exit", "end"});
    run.check_all_gone();
  }
}

TEST_CASE("a second SIGTERM, two seconds later, kills a run that does not stop") {
  const Run run("twice", {"step:1 stop", "exit:0"});
  const pid_t pid = supervise_in_child(run);
  run.await("metrics.jsonl");
  run.await_stopped();
  int status = 0;
  REQUIRE(Run::await_that([&] {
    kill(pid, SIGTERM);
    return waitpid(pid, &status, WNOHANG) == pid;
  }));
  CHECK(WEXITSTATUS(status) == 137);
  CHECK(run.events() == Names{"start", "signal", "signal", "exit", "end"});
  CHECK(run.starts() == 1);
  run.check_all_gone();
}

TEST_CASE("a signal to stop between two starts ends it") {
  for (const int signal : stop_signals) {
    Run run("between", {"step:1 exit:1", "exit:0"});
    run.options.first_delay = run.options.longest_delay = Seconds(600);
    const pid_t pid = supervise_in_child(run);
    run.await_events({"start", "exit", "restart"});
    kill(pid, signal);
    kill(pid, std::max(signal, SIGTERM));  // an echo; of two that wait, the lower number comes first
    CHECK(exit_code(pid) == 128 + signal);
    CHECK(run.starts() == 1);
  }
}

TEST_CASE("a supervisor that is killed asks the run to stop") {
  const Run run("killed", {"step:1 wait"});
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that the orphan can be seen to end
  const pid_t pid = supervise_in_child(run);
  run.await("ready");
  kill(pid, SIGKILL);
  CHECK(exit_code(pid) == 137);
  const pid_t child = std::stoi(run.lines("pids").at(0));
  int status = 0;
  pid_t ended = 0;
  CHECK(Run::await_that([&] { return (ended = waitpid(child, &status, WNOHANG)) != 0; }));
  CHECK(ended == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);  // of its own will
  if (ended == 0) kill(child, SIGKILL);
}

}  // namespace zrt::supervisor_signals_test

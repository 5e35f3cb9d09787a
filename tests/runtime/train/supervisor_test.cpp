// The supervisor over a run that a shell script plays: each start of it does what the next line of a plan says.
#include "runtime/train/launch/supervisor.h"

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
#include "tests/catch.h"

namespace zrt::supervisor_test {

using namespace zrt::runtime;
namespace fs = std::filesystem;

namespace {

struct Run {
  fs::path path;
  LaunchOptions options;
  Run(const std::string& name, const std::vector<std::string>& plan)
      : path(fs::temp_directory_path() / ("zrt_supervisor_" + name + "_" + std::to_string(getpid()))) {
    fs::remove_all(path);
    fs::create_directories(path);
    std::ofstream file(path / "plan");
    for (const std::string& line : plan) file << line << "\n";
    options.command = {std::string(ZRT_SOURCE_DIR) + "/tests/runtime/train/fake_run.sh", path.string()};
    options.out = path;
    options.first_delay = options.longest_delay = Seconds(0.01);
    options.hang_timeout = options.start_timeout = Seconds(60);
  }
  ~Run() { fs::remove_all(path); }

  std::vector<std::string> lines(const std::string& name) const {
    std::ifstream file(path / name);
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) found.push_back(line);
    return found;
  }
  size_t starts() const { return lines("pids").size(); }
  std::vector<std::string> events() const {
    std::vector<std::string> found;
    for (const std::string& line : lines("events.jsonl")) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_discarded()) break;  // it is being written
      CHECK(json["time"] > 1e9);
      found.push_back(json["event"]);
    }
    return found;
  }
  // Ten minutes are for ever, on a busy machine too.
  static bool await_that(const std::function<bool()>& condition) {
    for (int i = 0; i < 60000; ++i, usleep(10000)) {
      if (condition()) return true;
    }
    return false;
  }
  void await(const std::string& name) const {
    REQUIRE(await_that([&] { return fs::exists(path / name); }));
  }
  void await_events(const std::vector<std::string>& wanted) const {
    REQUIRE(await_that([&] { return events() == wanted; }));
  }
  // Until SIGSTOP has taken effect: the script writes its step before.
  void await_stopped() const {
    const std::string file = "/proc/" + lines("pids").at(0) + "/stat";
    REQUIRE(await_that([&] {
      std::string stat;
      std::getline(std::ifstream(file) >> std::ws, stat);
      return stat.find(") T ") != std::string::npos;
    }));
  }
  // No process of the run is left, however it was ended.
  void check_all_gone() const {
    for (const char* name : {"pids", "sleepers"}) {
      for (const std::string& pid : lines(name)) {
        const bool left = !await_that([&] { return kill(std::stoi(pid), 0) != 0; });
        CHECK_FALSE(left);
        if (left) kill(std::stoi(pid), SIGKILL);  // or it would outlive the test, and hold its output open
      }
    }
  }
};

using Names = std::vector<std::string>;

// Supervises in a process of its own, which the test may signal.
pid_t supervise_in_child(const Run& run, bool under_nohup = false) {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid > 0) return pid;
  // What runs the tests may ignore them, in the background for example, and a shell then cannot trap them.
  for (const int ignored : {SIGINT, SIGHUP}) signal(ignored, SIG_DFL);
  if (under_nohup) signal(SIGHUP, SIG_IGN);
  _exit(supervise(run.options).exit_code);
}

int exit_code(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("a run that succeeds is started once") {
  const Run run("success", {"step:1 step:2 exit:0"});
  const LaunchResult result = supervise(run.options);
  CHECK(result.exit_code == 0);
  CHECK(result.restarts == 0);
  CHECK(result.step == 2);
  CHECK(result.lost_steps == 0);
  CHECK(result.productive_seconds == 0.5);
  CHECK(result.goodput() > 0);
  CHECK(run.events() == Names{"start", "exit", "end"});
}

TEST_CASE("a run that dies is started again, by exit code or by signal") {
  for (const char* death : {"exit:1", "kill:9", "kill:11"}) {
    const Run run("crash", {std::string("step:1 step:2 ") + death, "step:2 step:3 exit:0"});
    const LaunchResult result = supervise(run.options);
    CHECK(result.exit_code == 0);
    CHECK(result.restarts == 1);
    CHECK(result.step == 3);
    CHECK(result.lost_steps == 1);
    CHECK(result.productive_seconds == 0.75);
    CHECK(run.events() == Names{"start", "exit", "restart", "start", "exit", "end"});
  }
}

TEST_CASE("steps behind the newest checkpoint are lost where a run ends without having saved") {
  Run run("unsaved", {"step:1 step:2 step:3 exit:3"});
  CHECK(supervise(run.options).lost_steps == 3);
  const Run saved("saved", {"step:1 step:2 step:3 exit:3"});
  fs::create_directories(saved.path / "checkpoints/step_2");
  CHECK(supervise(saved.options).lost_steps == 1);
  // A run that went on from another one's step.
  const Run later("unsaved_later", {"step:101 step:102 exit:3"});
  CHECK(supervise(later.options).lost_steps == 2);
}

TEST_CASE("lost steps are counted when a restarted run rewrites its metrics") {
  const Run run("rewrite", {"step:1 step:2 step:3 exit:1", "keep:1 step:2 step:3 step:4 step:5 exit:0"});
  const LaunchResult result = supervise(run.options);
  CHECK(result.step == 5);
  CHECK(result.lost_steps == 2);
  CHECK(result.productive_seconds == 1.25);
}

TEST_CASE("a run that hangs is killed with all it started, stopped or not, and started again") {
  for (const char* hang : {"hang", "stop"}) {
    Run run("hang", {std::string("step:1 ") + hang, "exit:0"});
    run.options.hang_timeout = Seconds(1);  // the second start gives no sign of life, so that it has 60 s
    const LaunchResult result = supervise(run.options);
    CHECK(result.exit_code == 0);
    CHECK(result.restarts == 1);
    CHECK(run.events() == Names{"start", "hang", "restart", "start", "exit", "end"});
    run.check_all_gone();
  }
}

TEST_CASE("a run that hangs before its first step is given the start time-out") {
  Run run("start", {"hang", "exit:0", "exit:0"});
  run.options.hang_timeout = Seconds(0.1);
  run.options.start_timeout = Seconds(2);
  CHECK(supervise(run.options).exit_code == 0);
  CHECK(run.lines("events.jsonl")[1].find("no sign of life for 2.0 s") != std::string::npos);
}

TEST_CASE("what a dead run left running is killed before the next start") {
  const Run run("orphan", {"step:1 exit:1", "exit:0"});
  {
    std::ofstream script(run.path / "launcher.sh");  // leaves a stopped orphan in another session and dies
    const std::string sleepers = (run.path / "sleepers").string();
    script << "before=$(cat " << sleepers << " 2>/dev/null | wc -l)\n"
           << "setsid sh -c 'echo $$ >>" << sleepers << "; kill -STOP $$' &\n"
           << "while [ $(cat " << sleepers << " 2>/dev/null | wc -l) -eq $before ]; do sleep 0.01; done\n"
           << "exec " << run.options.command[0] << " " << run.options.command[1] << "\n";
  }
  LaunchOptions options = run.options;
  options.command = {"sh", (run.path / "launcher.sh").string()};
  CHECK(supervise(options).exit_code == 0);
  CHECK(run.lines("sleepers").size() == 2);
  run.check_all_gone();
}

TEST_CASE("restarts that bring nothing end after max_restarts, with the run's code and nothing deleted") {
  const Run run("loop", {"step:1 save:1 step:2 exit:7", "step:2 exit:7", "exit:7", "step:2 exit:7", "exit:0"});
  const LaunchResult result = supervise(run.options);
  CHECK(result.exit_code == 7);
  CHECK(result.restarts == 3);
  CHECK(run.starts() == 4);
  CHECK(result.reason.find("3 restarts in a row") != std::string::npos);
  CHECK(fs::exists(run.path / "checkpoints/step_1"));
  CHECK(run.lines("metrics.jsonl").size() == 4);
  CHECK(run.events()[run.events().size() - 2] == "give_up");
}

TEST_CASE("a run that fails twice in the same way at the same step is not started a third time") {
  // It was killed meanwhile, took steps anew and saved: it came to the same end.
  const Run run("repeats", {"step:1 save:1 step:2 fail:2 exit:1", "step:2 kill:9", "step:3 save:3 step:4 fail:2 exit:1",
                            "step:5 exit:0"});
  const LaunchResult result = supervise(run.options);
  CHECK(result.exit_code == 1);
  CHECK(run.starts() == 3);
  CHECK(result.reason.find("failed twice in the same way at step 2") != std::string::npos);
  CHECK(run.events()[run.events().size() - 2] == "give_up");
  CHECK(fs::exists(run.path / "checkpoints/step_3"));
}

TEST_CASE("failures at different steps, and one that an earlier start left, are no repetition") {
  const Run run("differs", {"step:1 fail:2 exit:1", "step:2 fail:3 exit:1", "step:3 exit:1", "step:4 exit:0"});
  // Of a supervision that is over.
  std::ofstream(run.path / "failure.json") << R"({"step": 2, "kind": "skipped steps", "message": "old"})";
  const LaunchResult result = supervise(run.options);
  CHECK(result.exit_code == 0);
  CHECK(run.starts() == 4);
}

TEST_CASE("a run that always hangs is given up too") {
  Run run("loop_hang", {"hang", "hang", "hang"});
  run.options.hang_timeout = run.options.start_timeout = Seconds(1);
  run.options.max_restarts = 1;
  CHECK(supervise(run.options).exit_code == 137);
  CHECK(run.starts() == 2);
}

TEST_CASE("a newer step or checkpoint starts the count anew") {
  const Run run("progress", {"step:1 exit:1", "exit:1", "exit:1", "step:2 exit:1", "exit:1", "save:3 exit:1", "exit:1",
                             "exit:1", "step:4 exit:0"});
  const LaunchResult result = supervise(run.options);
  CHECK(result.exit_code == 0);
  CHECK(result.restarts == 8);
}

TEST_CASE("steps of before a supervisor are not its own: to go on behind them is progress, and loses none of them") {
  Run run("earlier", {"keep:2 step:3 exit:1", "step:4 exit:1", "step:5 exit:1", "step:6 exit:0"});
  run.options.max_restarts = 1;
  {
    std::ofstream metrics(run.path / "metrics.jsonl");
    for (int step = 1; step <= 100; ++step)
      metrics << R"({"step":)" << step << R"(,"step_seconds":0.25})"
              << "\n";
  }
  fs::create_directories(run.path / "checkpoints/step_2");
  const LaunchResult result = supervise(run.options);
  CHECK(result.exit_code == 0);
  CHECK(result.restarts == 3);
  CHECK(result.step == 6);
  CHECK(result.lost_steps == 0);
  CHECK(result.productive_seconds == 1);
}

TEST_CASE("where metrics.jsonl was removed the step is the newest checkpoint's, until the run takes one") {
  const Run nothing("removed", {"beats:1 exit:0"}), goes_on("removed_on", {"step:7 step:8 exit:0"});
  for (const Run* run : {&nothing, &goes_on}) fs::create_directories(run->path / "checkpoints/step_6");
  CHECK(supervise(nothing.options).step == 6);
  const LaunchResult result = supervise(goes_on.options);
  CHECK(result.step == 8);
  CHECK(result.lost_steps == 0);
}

TEST_CASE("steps of a live run whose metrics.jsonl was removed count, and those that a restart repeats are lost") {
  const Run run("removed_live",
                {"step:1 open rm seen:2 seen:3 seen:4 exit:1", "step:3 step:4 exit:1", "step:5 exit:0"});
  const LaunchResult result = supervise(run.options);
  CHECK(result.exit_code == 0);
  CHECK(result.restarts == 2);
  CHECK(result.step == 5);
  CHECK(result.lost_steps == 2);
  CHECK(result.productive_seconds == 1.25);
}

TEST_CASE("what ends before any rank has begun is not started again, and what failed after one had begun is") {
  for (const char* death : {"exit:1", "exit:9", "kill:9"}) {
    const Run run("early", {death, "step:1 exit:0"});
    const LaunchResult result = supervise(run.options);
    INFO(death);
    CHECK(result.exit_code != 0);
    CHECK(result.restarts == 0);
    CHECK(!result.began);
    CHECK(run.starts() == 1);
    CHECK(result.reason.find("before any rank gave a sign of life") != std::string::npos);
  }
  const Run later("later", {"beats:1 exit:1", "exit:1", "step:1 exit:0"});
  const LaunchResult result = supervise(later.options);
  CHECK(result.exit_code == 0);
  CHECK(result.began);
  CHECK(later.starts() == 3);
}

TEST_CASE("refusals and programs that cannot be run are not started again") {
  const Run refused("refused", {"exit:2", "exit:0"});
  const LaunchResult result = supervise(refused.options);
  CHECK(result.exit_code == 2);
  CHECK(refused.starts() == 1);
  Run missing("missing", {});
  missing.options.command = {"/nonexistent/program"};
  CHECK(supervise(missing.options).exit_code == 127);
  CHECK(missing.events() == Names{"start", "exit", "end"});
}

TEST_CASE("a run that saved and stopped by itself is not started again") {
  const Run run("preempted", {"step:1 exit:3", "exit:0"});
  CHECK(supervise(run.options).exit_code == 3);
  CHECK(run.starts() == 1);
}

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

TEST_CASE("a folder that another run uses is refused at once, and nothing is started or written there") {
  const Run run("locked", {"step:1 exit:0"});
  const core::FolderLock lock(run.path);
  CHECK_THROWS_AS(supervise(run.options), core::ConfigError);
  CHECK(run.starts() == 0);
  CHECK(run.events().empty());
}

TEST_CASE("the time before a restart doubles with each that brought nothing, up to its limit") {
  Run run("delays", {"step:1 exit:1", "exit:1", "exit:1", "exit:1", "step:2 exit:1", "exit:0"});
  run.options.max_restarts = 9;
  run.options.first_delay = Seconds(0.1);
  run.options.longest_delay = Seconds(0.3);
  CHECK(supervise(run.options).exit_code == 0);
  std::vector<std::string> delays;
  for (const std::string& line : run.lines("events.jsonl")) {
    const auto json = nlohmann::json::parse(line);
    const std::string reason = json["reason"];
    if (json["event"] == "restart") delays.push_back(reason.substr(reason.rfind("in ")));
  }
  CHECK(delays == Names{"in 0.1 s", "in 0.2 s", "in 0.3 s", "in 0.3 s", "in 0.1 s"});
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

}  // namespace zrt::supervisor_test

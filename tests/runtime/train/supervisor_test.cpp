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
#include "tests/runtime/train/supervised_run.h"

namespace zrt::supervisor_test {

using namespace zrt::runtime;
namespace fs = std::filesystem;
using namespace zrt::supervised_run;

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
  // The file is of a supervision that is over.
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

}  // namespace zrt::supervisor_test

// zrt launch around zrt train: a run that is killed and a run that hangs end with the bits of one that was left alone.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catch.h"
#include "program.h"

namespace zrt::launch_test {

namespace {

namespace fs = std::filesystem;
using testing::Folder;

const std::string program = std::string(ZRT_BINARY_DIR) + "/zrt";

pid_t start(std::vector<std::string> arguments, const fs::path& log) {
  arguments.insert(arguments.begin(), program);
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    // The caller of the tests may ignore these signals, in the background for example.
    for (const int signal : {SIGINT, SIGHUP}) ::signal(signal, SIG_DFL);
    if (std::freopen(log.c_str(), "w", stdout) == nullptr || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(126);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The run below the supervisor, another than `before`, once it has written a step from `step` on; -1: none came.
pid_t run_at(pid_t supervisor, const fs::path& run, int64_t step, pid_t before = 0) {
  for (int i = 0; i < 120000; ++i, usleep(5000)) {
    std::ifstream metrics(run / "metrics.jsonl");
    int64_t last = 0;
    for (std::string line; std::getline(metrics, line) && !metrics.eof();) last = nlohmann::json::parse(line)["step"];
    const std::string id = std::to_string(supervisor);
    const std::string children = text_of("/proc/" + id + "/task/" + id + "/children");
    if (last >= step && !children.empty() && std::stoi(children) != before) return std::stoi(children);
  }
  return -1;
}

std::string state(const fs::path& run) {
  return nlohmann::json::parse(text_of(run / "summary.json"))["state_xxh3"];
}

}  // namespace

TEST_CASE("a run that is killed, then hangs, ends with the bits of one that was left alone") {
  const fs::path folder = fs::temp_directory_path() / ("zrt_launch_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  {
    std::ofstream text(folder / "text.txt");
    for (int i = 0; i < 400; ++i) text << "line " << i * 7919 % 1000 << " of a text that repeats itself\n";
    std::ofstream(folder / "config.json") << R"({"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2,
      "zero_optimization": {"stage": 3}, "model": {"preset": "gpt2-tiny"},
      "data": {"train": ")" << (folder / "corpus").string()
                                          << R"("}, "run": {"steps": 1000, "checkpoint_interval": 20}})";
  }
  REQUIRE(wait_for(start({"data", "build", "--out", folder / "corpus", folder / "text.txt"}, folder / "data.log")) ==
          0);
  const std::string config = folder / "config.json";
  REQUIRE(wait_for(start({"train", config, "--ranks", "2", "--out", folder / "plain"}, folder / "plain.log")) == 0);

  const pid_t supervisor = start({"launch", config, "--ranks", "2", "--out", folder / "faulted", "--hang-timeout", "4",
                                  "--start-timeout", "60", "--delay", "0"},
                                 folder / "launch.log");
  const pid_t first = run_at(supervisor, folder / "faulted", 50);
  REQUIRE(first > 0);
  kill(first, SIGKILL);
  const pid_t second = run_at(supervisor, folder / "faulted", 120, first);
  REQUIRE(second > 0);
  kill(second, SIGSTOP);
  const int code = wait_for(supervisor);
  INFO(text_of(folder / "launch.log"));
  CHECK(code == 0);
  CHECK(first != second);
  CHECK(state(folder / "faulted") == state(folder / "plain"));
  const std::string events = text_of(folder / "faulted" / "events.jsonl");
  CHECK(events.find("signal 9") != std::string::npos);
  CHECK(events.find("\"hang\"") != std::string::npos);
  fs::remove_all(folder);
}

TEST_CASE("a live run's folder is refused at once by every command that would write there, and read by the others") {
  const Folder folder("live");
  testing::build_data(folder);
  folder.write("config.json", folder.config());
  const std::string config = folder / "config.json";
  const fs::path out = folder.path / "run";
  const pid_t live =
      start({"train", config, "--ranks", "2", "--steps", "1000000", "--set", "run.checkpoint_interval=5", "--set",
             "run.keep_every=5", "--set", "run.log_interval=0", "--set", "data.validation=null"},
            folder / "live.log");
  const auto saved = [&] { return fs::exists(out / "checkpoints/step_10"); };
  for (int i = 0; i < 120000 && !saved(); ++i) usleep(5000);
  REQUIRE(saved());
  kill(live, SIGSTOP);  // it holds the folder and changes nothing there
  const std::string metrics = text_of(out / "metrics.jsonl"), resolved = text_of(out / "config.resolved.json");
  const std::string holder = "in use by process " + std::to_string(live) + " on ";
  // The lock is found before the checkpoints are looked at, which tell a fresh run to go elsewhere and another to go
  // on.
  for (const std::string& command :
       {"train " + config, "train --resume auto " + config, "launch " + config, "launch --max-restarts 5 " + config}) {
    const testing::Result result = testing::run_zrt(command + " --ranks 2");
    INFO(result.text);
    CHECK(result.code == 2);
    CHECK(result.text.find(holder) != std::string::npos);
    CHECK(result.text.find("launch: start") == std::string::npos);
  }
  // Whatever somebody does to the file that says so.
  fs::rename(out / "lock", folder.path / "lock");
  for (const std::string command : {"train --resume auto ", "launch "}) {
    const testing::Result result = testing::run_zrt(command + config + " --ranks 2");
    INFO(result.text);
    CHECK(result.code == 2);
    CHECK(result.text.find(holder) != std::string::npos);
  }
  fs::rename(folder.path / "lock", out / "lock");
  CHECK(testing::run_zrt("checkpoint verify " + out.string()).code == 0);
  CHECK(testing::run_zrt("checkpoint export " + out.string() + " --out " + (folder / "plain")).code == 0);
  const testing::Result imported =
      testing::run_zrt("checkpoint import " + (folder / "plain") + " --out " + out.string());
  INFO(imported.text);
  CHECK(imported.text.find(holder) != std::string::npos);
  CHECK(testing::run_zrt("eval " + out.string() + " --data " + (folder / "corpus/validation")).code == 0);
  CHECK(testing::run_zrt("generate " + out.string() + " --prompt line --tokens 4").code == 0);
  CHECK(testing::run_zrt("report " + out.string()).code == 0);
  CHECK(text_of(out / "metrics.jsonl") == metrics);
  CHECK(text_of(out / "config.resolved.json") == resolved);
  CHECK_FALSE(fs::exists(out / "events.jsonl"));
  // Its death lets go of the folder, at once.
  kill(live, SIGKILL);
  CHECK(wait_for(live) == 137);
  const testing::Result next = testing::run_zrt("train --resume auto --ranks 2 --steps 20 " + config);
  INFO(next.text);
  CHECK(next.code == 0);
  CHECK_FALSE(fs::exists(out / "lock"));
}

TEST_CASE("a supervised run's folder is refused to others while the run waits to be started again") {
  const Folder folder("between");
  testing::build_data(folder);
  folder.write("config.json", folder.config());
  const std::string config = folder / "config.json", out = folder / "run";
  const std::vector<std::string> sets{"--set", "run.checkpoint_interval=5", "--set", "run.log_interval=0",
                                      "--set", "data.validation=null",      "--set", "run.keep_last=100"};
  std::vector<std::string> launch{"launch", config, "--ranks", "2", "--out", out, "--steps", "100000", "--delay", "20"};
  launch.insert(launch.end(), sets.begin(), sets.end());
  const pid_t supervisor = start(launch, folder / "launch.log");
  const auto child = [&] {
    pid_t pid = 0;
    std::ifstream("/proc/" + std::to_string(supervisor) + "/task/" + std::to_string(supervisor) + "/children") >> pid;
    return pid;
  };
  for (int i = 0; i < 24000 && !fs::exists(out + "/checkpoints/step_5/manifest.json"); ++i) usleep(5000);
  REQUIRE(child() > 0);
  kill(child(), SIGKILL);
  for (int i = 0; i < 24000 && child() > 0; ++i) usleep(5000);
  const std::string holder = "in use by zrt launch, process " + std::to_string(supervisor) + " on ";
  for (const std::string& command :
       {"train " + config + " --steps 5 --out ", "train --resume auto " + config + " --out ",
        "launch " + config + " --out ", "launch --processes " + config + " --out "}) {
    const testing::Result result = testing::run_zrt(command + out + " --ranks 2");
    INFO(command << "\n" << result.text);
    CHECK(result.code == 2);
    CHECK(result.text.find(holder) != std::string::npos);
  }
  kill(supervisor, SIGTERM);
  CHECK(wait_for(supervisor) == 128 + SIGTERM);
  CHECK(!fs::exists(out + "/launch.lock"));
  CHECK(testing::run_zrt("train --resume auto " + config +
                         " --steps 1000 --ranks 2 --set run.checkpoint_interval=5 --out " + out)
            .code == 0);
}

TEST_CASE("zrt launch has every option of zrt train that stands for a key of the run, and hands it on") {
  const auto options = [](const std::string& command) {
    std::istringstream lines(testing::run_zrt(command + " --help").text);
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) {
      if (line.find(" run.") != std::string::npos && line.find("--resume") == std::string::npos &&
          line.find("--") != std::string::npos) {
        found.push_back(line.substr(line.find("--"), line.find(' ', line.find("--")) - line.find("--")));
      }
    }
    return found;
  };
  const std::vector<std::string> of_train = options("train");
  CHECK(of_train == std::vector<std::string>{"--steps", "--epochs", "--tokens", "--samples", "--out", "--device"});
  CHECK(options("launch") == of_train);
  const Folder folder("launch_samples");
  testing::build_data(folder);
  folder.write("config.json", folder.config());
  const testing::Result result = testing::run_zrt("launch " + (folder / "config.json") + " --ranks 2 --samples 9");
  INFO(result.text);
  CHECK(result.code == 0);
  CHECK(nlohmann::json::parse(text_of(folder.path / "run/summary.json"))["steps"] == 3);
}

TEST_CASE("one of several processes that a launcher unknown to zrt started is refused, and leaves no folder") {
  const Folder folder("launchers");
  testing::build_data(folder);
  folder.write("config.json", folder.config());
  const std::string config = folder / "config.json";
  for (const std::string& command : {"train " + config, "launch " + config, "plan " + config}) {
    for (const char* variables : {"RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 ", "RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 "}) {
      const testing::Result result = testing::run_command(std::string("env ") + variables + program + " " + command);
      INFO(command << "\n" << result.text);
      CHECK(result.code == 2);
      CHECK(result.text.find("mpirun -n 2") != std::string::npos);
    }
  }
  CHECK_FALSE(fs::exists(folder.path / "run"));
  // Two supervisors of one folder are no better.
  const testing::Result twice =
      testing::run_command("env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 " + program + " launch " + config);
  CHECK(twice.code == 2);
  CHECK(twice.text.find("start it without mpirun or srun") != std::string::npos);
  CHECK(testing::run_command("env RANK=0 WORLD_SIZE=1 " + program + " train " + config).code == 0);
}

TEST_CASE("a run counts as hung after twice the time that its ranks wait for each other, unless another is asked for") {
  const Folder folder("launch_hangs");
  folder.write("config.json", R"({"train_batch_size": 4, "model": {"preset": "gpt2-tiny"}})");
  // Stands in for an mpirun whose ranks take a step and stand still.
  folder.write("mpirun", "#!/bin/sh\necho '{\"step\": 1, \"step_seconds\": 0.01}' >>" + (folder / "run/metrics.jsonl") +
                             "\nexec sleep 1000\n");
  fs::permissions(folder.path / "mpirun", fs::perms::owner_all);
  for (const auto& [more, limit] : {std::pair<std::string, std::string>{"", "2.0"}, {" --hang-timeout 0.3", "0.3"}}) {
    fs::remove_all(folder.path / "run");
    const testing::Result result = testing::run_command(
        "timeout 60 " + program + " launch " + (folder / "config.json") + " --ranks 2 --out " + (folder / "run") +
        " --mpi --mpirun " + (folder / "mpirun") + " --max-restarts 0 --set run.timeout_seconds=1" + more);
    INFO(result.text);
    CHECK(result.code == 137);
    CHECK(text_of(folder.path / "run/events.jsonl").find("no sign of life for " + limit + " s") != std::string::npos);
  }
}

TEST_CASE("what mpirun refuses before any rank has begun is not repeated, and root is told what to set") {
  const fs::path folder = fs::temp_directory_path() / ("zrt_launch_root_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  // Stands in for an mpirun that starts nothing.
  const fs::path refusing = folder / "mpirun";
  std::ofstream(refusing) << "#!/bin/sh\necho mpirun has its reasons >&2\nexit 1\n";
  fs::permissions(refusing, fs::perms::owner_all);
  std::ofstream(folder / "config.json") << R"({"train_batch_size": 4, "model": {"preset": "gpt2-tiny"}})";
  for (const bool allowed : {false, true}) {
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
      allowed ? setenv(name, "1", 1) : unsetenv(name);
    }
    const fs::path run = folder / (allowed ? "allowed" : "refused");
    const int code = wait_for(start(
        {"launch", folder / "config.json", "--mpi", "--mpirun", refusing, "--ranks", "2", "--delay", "0", "--out", run},
        folder / "log"));
    const std::string log = text_of(folder / "log"), events = text_of(run / "events.jsonl");
    INFO(log << events);
    CHECK(code == 1);
    CHECK(log.find("mpirun has its reasons") != std::string::npos);
    CHECK(log.find("before any rank gave a sign of life") != std::string::npos);
    const bool told =
        log.find("set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1") != std::string::npos;
    CHECK(told == (geteuid() == 0 && !allowed));
    CHECK(events.find("\"event\":\"restart\"") == std::string::npos);
  }
  // Neither where root is allowed by an option, nor where there is no such program.
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) unsetenv(name);
  for (const std::string& mpirun : {refusing.string() + " --allow-run-as-root", std::string("no_such_mpirun")}) {
    CHECK(wait_for(start({"launch", folder / "config.json", "--mpi", "--mpirun", mpirun, "--ranks", "2", "--delay", "0",
                          "--out", folder / "other"},
                         folder / "log")) != 0);
    const std::string log = text_of(folder / "log");
    INFO(log);
    CHECK(log.find("as root") == std::string::npos);
  }
  fs::remove_all(folder);
}

}  // namespace zrt::launch_test

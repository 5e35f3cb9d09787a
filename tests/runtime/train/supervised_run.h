// A run that a shell script plays: each start of it does what the next line of a plan says.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/train/launch/supervisor.h"
#include "tests/catch.h"

namespace zrt::supervised_run {

using namespace zrt::runtime;
namespace fs = std::filesystem;

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
  // Waits until SIGSTOP has taken effect: the script writes its step before.
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

inline int exit_code(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace zrt::supervised_run

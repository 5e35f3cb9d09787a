// Runs of several processes for tests: a small model in a folder of its own, the processes below a launcher, signals.
#pragma once
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "program.h"

namespace zrt::testing {

// Puts ranks on the emulated GPU in a build with it.
inline std::string device() {
  return ZRT_EMULATED ? " --device cuda" : "";
}

struct Prepared : Folder {
  explicit Prepared(const std::string& name, int steps = 2) : Folder(name) {
    build_data(*this);
    write(
        "config.json",
        fmt::format(R"({{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "parallel": {{"reduce_every": 1}},
      "optimizer": {{"type": "AdamW", "params": {{"lr": 0.003}}}}, "model": {{"preset": "llama-tiny"}},
      "data": {{"train": "{}", "validation": "{}"}}, "run": {{"steps": {}, "timeout_seconds": 60}}}})",
                    *this / "corpus/train", *this / "corpus/validation", steps));
  }
  // Arguments of `zrt` that train into the folder `name`.
  std::string run(const std::string& name, const std::string& more) const {
    return "train " + (*this / "config.json") + device() + " --out " + (*this / name) + " " + more;
  }
};

inline std::string state_of(const std::string& folder) {
  return read_json(folder + "/summary.json")["state_xxh3"];
}

inline std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream in(fmt::format("/proc/{0}/task/{0}/children", parent));
  return {std::istream_iterator<pid_t>(in), {}};
}

// Arguments of `zrt ranks` for two hosts, both played by this one, with so many ranks each.
inline std::string two_hosts(const Folder& folder, int slots) {
  folder.write("hosts", fmt::format("localhost slots={0}\n127.0.0.1 slots={0}\n", slots));
  folder.write("agent.sh", "#!/bin/sh\nhost=$1; shift\nZRT_HOST_GROUP=$host exec sh -c \"$*\"\n");
  fs::permissions(folder / "agent.sh", fs::perms::owner_all);
  return "--hosts " + (folder / "hosts") + " --agent " + (folder / "agent.sh") + " ";
}

// `--set` for each of the words.
inline std::string sets_of(const std::string& words) {
  std::string sets;
  std::istringstream in(words);
  for (std::string word; in >> word;) sets += " --set " + word;
  return sets;
}

// The memory that a run measured is what it had planned, on every rank and tier.
inline void check_measured_memory(const std::string& folder) {
  const nlohmann::json memory = read_json(folder + "/memory.json");
  REQUIRE_FALSE(memory["ranks"].empty());
  for (const auto& rank : memory["ranks"]) {
    for (const auto& [tier, bytes] : rank["tiers"].items()) {
      CHECK(bytes["measured_peak_bytes"] == bytes["planned_peak_bytes"]);
    }
  }
}

// Starts `zrt ARGUMENTS`, which writes to `log`.
inline pid_t start_zrt(const std::string& arguments, const std::string& log) {
  const std::string command = "exec " + std::string(ZRT_BINARY_DIR) + "/zrt " + arguments + " >" + log + " 2>&1";
  const pid_t pid = fork();
  if (pid > 0) return pid;
  for (const int number : {SIGINT, SIGHUP}) signal(number, SIG_DFL);
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

inline int end_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// False after two minutes.
inline bool comes_true(const std::function<bool()>& done) {
  for (int i = 0; i < 24000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return done();
}

}  // namespace zrt::testing

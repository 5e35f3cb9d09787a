// The program zrt as a user starts it, and a folder with a small text for it to train on.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "catch.h"

namespace zrt::testing {

namespace fs = std::filesystem;

struct Result {
  int code;          // 128 + the signal for one that a signal ended
  std::string text;  // stdout and stderr
};

inline Result run_command(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text};
}

inline Result run_zrt(const std::string& arguments) {
  return run_command(std::string(ZRT_BINARY_DIR) + "/zrt " + arguments);
}

// A folder of its own for each test, with a small text in it.
struct Folder {
  fs::path path;
  explicit Folder(const std::string& name)
      : path(fs::temp_directory_path() / ("zrt_" + name + "_" + std::to_string(getpid()))) {
    fs::remove_all(path);
    fs::create_directories(path);
    std::ofstream text(path / "text.txt");
    for (int i = 0; i < 400; ++i) text << "line " << i * 7919 % 1000 << " of a text that repeats itself\n";
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  void write(const std::string& name, const std::string& content) const { std::ofstream(path / name) << content; }

  // A run of gpt2-tiny on the data that build_data() makes.
  std::string config(const std::string& more = "") const {
    return R"({"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}, "zero_optimization": {"stage": 3},
  "model": {"preset": "gpt2-tiny"}, "data": {"train": ")" +
           (*this / "corpus/train") + R"(", "validation": ")" + (*this / "corpus/validation") +
           R"("}, "run": {"steps": 6, "out": ")" + (*this / "run") + R"("})" + more + "}";
  }
};

inline nlohmann::json read_json(const std::string& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

inline void build_data(const Folder& folder) {
  const Result built =
      run_zrt("data build --out " + (folder / "corpus") + " --validation 0.2 " + (folder / "text.txt"));
  INFO(built.text);
  REQUIRE(built.code == 0);
}

}  // namespace zrt::testing

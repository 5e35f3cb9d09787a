#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "runtime/bench/io.h"

namespace zrt::runtime {
namespace {

// The exit code of a program found through PATH; 127 when it cannot be run.
int run(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

double fio_bytes_per_second(const IoBenchOptions& options, const std::filesystem::path& file, bool writes,
                            bool pinned) {
  const std::filesystem::path result = file.string() + ".json";
  std::string escaped;  // a colon would part two file names
  for (const char c : file.string()) escaped += c == ':' ? std::string("\\:") : std::string(1, c);
  const int code =
      run({"fio", "--name=zrt", "--ioengine=io_uring", "--direct=1", "--thread", fmt::format("--filename={}", escaped),
           fmt::format("--size={}", options.bytes), fmt::format("--bs={}", options.block),
           fmt::format("--iodepth={}", options.depth), fmt::format("--fixedbufs={}", pinned ? 1 : 0),
           fmt::format("--rw={}", writes ? "write" : "read"), "--output-format=json",
           fmt::format("--output={}", result.string())});
  if (code != 0) std::filesystem::remove(result);
  if (code == 127) throw core::DataError("fio cannot be run: is it installed and on PATH? (Debian: apt install fio)");
  if (code != 0) throw core::DataError(fmt::format("fio ended with code {}; its output is above", code));
  const std::string text = core::read_text(result, 1 << 20);
  std::filesystem::remove(result);
  try {
    const auto job = nlohmann::json::parse(text).at("jobs").at(0).at(writes ? "write" : "read");
    return job.at("bw_bytes").get<double>();
  } catch (const nlohmann::json::exception& error) {
    throw core::DataError(fmt::format("what fio printed is not understood: {}", error.what()));
  }
}

}  // namespace zrt::runtime

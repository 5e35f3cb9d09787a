#include "runtime/train/launch/progress.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"

namespace zrt::runtime {
namespace {

namespace fs = std::filesystem;

// The number in "step_12"; -1 for anything else, for example a checkpoint that is still being written.
int64_t checkpoint_step(const std::string& name) {
  const std::string prefix = "step_";
  if (!name.starts_with(prefix) || name.size() == prefix.size() || name.size() > prefix.size() + 18) return -1;
  const std::string digits = name.substr(prefix.size());
  return std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }) ? std::stoll(digits)
                                                                                                : -1;
}

}  // namespace

RunProgress::RunProgress(const fs::path& out) : folder_(out), out_(out) {
  folder_.hold();
  poll();
  highest_ = lost_ = taken_ = 0;
  productive_ = longest_ = 0;
}

RunProgress::~RunProgress() {
  if (metrics_ >= 0) ::close(metrics_);
}

std::string RunProgress::gone() {
  try {
    return folder_.renamed();
  } catch (const core::DataError& error) {
    return error.what();
  }
}

bool RunProgress::poll() {
  try {
    out_ = folder_.now();
  } catch (const core::DataError&) {
    return false;
  }
  const bool steps = poll_metrics();
  const bool files = poll_files();
  return steps || files;
}

// A run goes on writing into a file that somebody removes or replaces, and makes another when it is started again.
bool RunProgress::poll_metrics() {
  const fs::path path = out_ / "metrics.jsonl";
  const bool moved = read_metrics();
  if (metrics_ >= 0 && core::names_open(path, metrics_)) return moved;
  const int next = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (next < 0) return moved;
  if (metrics_ >= 0) ::close(metrics_);
  metrics_ = next;
  offset_ = 0;
  last_line_.clear();
  return read_metrics() || moved;
}

bool RunProgress::read_metrics() {
  if (metrics_ < 0) return false;
  std::ifstream file(fmt::format("/proc/self/fd/{}", metrics_), std::ios::binary);
  // The line read last still stands where it stood, or the file was written anew.
  std::string same(last_line_.size(), '\0');
  file.seekg(static_cast<std::streamoff>(offset_ - last_line_.size()));
  file.read(same.data(), static_cast<std::streamsize>(same.size()));
  if (!file || same != last_line_) {
    file.clear();
    file.seekg(0);
    offset_ = 0;
    last_line_.clear();
  }
  bool moved = false;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    line += '\n';
    offset_ += line.size();
    last_line_ = line;
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    // A crash may leave half a line; the rest of the file is sound.
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    step_ = json["step"].get<int64_t>();
    core::Hash hash;
    hash.update(line.data(), line.size());
    if (!seen_.insert(hash.digest()).second) continue;
    const auto seconds = json.find("step_seconds");
    add(step_, seconds != json.end() && seconds->is_number() ? seconds->get<double>() : 0);
    moved = true;
  }
  return moved;
}

void RunProgress::add(int64_t step, double seconds) {
  longest_ = std::max(longest_, seconds);
  if (step > highest_) {
    highest_ = step;
    ++taken_;
    productive_ += seconds;
  } else {
    ++lost_;
  }
}

// Times are compared with what they were, never with a clock or with each other: a clock may be set back.
bool RunProgress::poll_files() {
  uint64_t times = 0;  // a sum, because folders list their files in any order
  auto look = [&](const fs::path& path) {
    std::error_code error;
    const auto time = fs::last_write_time(path, error).time_since_epoch().count();
    if (error) return;
    core::Hash hash;
    hash.update(path.native().data(), path.native().size());
    hash.update(&time, sizeof time);
    times += hash.digest();
  };
  look(out_ / "heartbeat");
  look(out_ / "checkpoints");
  std::error_code error;
  fs::directory_iterator checkpoints(out_ / "checkpoints", error);
  for (; !error && checkpoints != fs::directory_iterator(); checkpoints.increment(error)) {
    look(checkpoints->path());
    checkpoint_ = std::max(checkpoint_, checkpoint_step(checkpoints->path().filename().string()));
    std::error_code gone;  // a folder may be renamed meanwhile
    fs::recursive_directory_iterator files(checkpoints->path(), gone);
    for (; !gone && files != fs::recursive_directory_iterator(); files.increment(gone)) look(files->path());
  }
  return std::exchange(file_times_, times) != times;
}

}  // namespace zrt::runtime

#include "runtime/run_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"

namespace zrt::runtime {

RunLog::RunLog(const std::filesystem::path& file, int64_t from) : file_(file) {
  std::string lines;
  std::ifstream in(file);
  for (std::string line; from > 0 && std::getline(in, line);) {
    // A line that a crash cut in two is dropped, as are all after it.
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) break;
    if (json["step"].get<int64_t>() > from) break;
    lines += line + "\n";
    const auto loss = json.find("loss");
    if (loss != json.end() && loss->is_number()) last_loss_ = loss->get<double>();
  }
  core::write_durably(file, lines);
  written_ = static_cast<int64_t>(lines.size());
  descriptor_ = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0)
    throw core::DataError(fmt::format("{}: cannot be opened: {}", file.string(), std::strerror(errno)));
}

RunLog::~RunLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RunLog::add(const StepMetrics& metrics) {
  last_loss_ = metrics.loss;
  kept_ += to_json(metrics) + "\n";
  ssize_t done = 0;
  do {
    done = ::write(descriptor_, kept_.data(), kept_.size());
  } while (done < 0 && errno == EINTR);
  if (done == static_cast<ssize_t>(kept_.size())) {
    written_ += done;
    kept_.clear();
    error_.clear();
    return;
  }
  error_ = fmt::format("{}: cannot be written: {}", file_.string(), std::strerror(done < 0 ? errno : ENOSPC));
  if (::ftruncate(descriptor_, written_) != 0) error_ += fmt::format("; half a line stays: {}", std::strerror(errno));
}

}  // namespace zrt::runtime

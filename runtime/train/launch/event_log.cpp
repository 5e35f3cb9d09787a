#include "runtime/train/launch/event_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/log.h"

namespace zrt::runtime {
namespace {

// Returns the size of a file, which is made where it does not exist.
int64_t size_of(const std::filesystem::path& file) {
  const int made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  struct stat status {};
  const int error = made < 0 || ::fstat(made, &status) != 0 ? errno : 0;
  if (made >= 0) ::close(made);
  if (error == 0) return status.st_size;
  throw core::DataError(fmt::format("{}: cannot be written: {}", file.string(), std::strerror(error)));
}

}  // namespace

void EventLog::add(const Event& event) {
  spdlog::info("launch: {}{}{}", event.event, event.reason.empty() ? "" : ": ", event.reason);
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const nlohmann::ordered_json json{{"time", now},
                                    {"event", event.event},
                                    {"restart", event.restart},
                                    {"step", event.step},
                                    {"reason", event.reason}};
  const std::string line = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::string error;
  try {
    if (!lines_) lines_.emplace(file_, size_of(file_));
    lines_->add(line);
    error = lines_->error();
  } catch (const core::DataError& failure) {
    error = failure.what();
  }
  if (!error.empty() && !std::exchange(complained_, true)) spdlog::warn("launch: {}; events go to this log", error);
}

}  // namespace zrt::runtime

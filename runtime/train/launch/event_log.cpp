#include "runtime/train/launch/event_log.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/log.h"

namespace zrt::runtime {

void EventLog::add(const Event& event) {
  spdlog::info("launch: {}{}{}", event.event, event.reason.empty() ? "" : ": ", event.reason);
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const nlohmann::ordered_json json{{"time", now},
                                    {"event", event.event},
                                    {"restart", event.restart},
                                    {"step", event.step},
                                    {"reason", event.reason}};
  std::ofstream file(file_, std::ios::app);
  file << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  if (!file && !std::exchange(complained_, true)) {
    spdlog::warn("launch: {} cannot be written; events go to this log only", file_.string());
  }
}

}  // namespace zrt::runtime

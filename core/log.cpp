#include "core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace zrt::core {

void init_log() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool plain = !isatty(STDERR_FILENO) || (no_color && *no_color) || (term && std::string_view(term) == "dumb");
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  sink->set_color_mode(plain ? spdlog::color_mode::never : spdlog::color_mode::always);
  auto logger = std::make_shared<spdlog::logger>("zrt", sink);
  logger->set_pattern("%^%l%$: %v");
  spdlog::set_default_logger(logger);
}

}  // namespace zrt::core

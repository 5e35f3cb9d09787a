#include "core/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "core/printable.h"

namespace zrt::core {
namespace {

// The message, in which names of files and what files say may be anything.
class PrintableMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = printable_lines({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override { return std::make_unique<PrintableMessage>(); }
};

}  // namespace

void init_log() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool plain = !isatty(STDERR_FILENO) || (no_color && *no_color) || (term && std::string_view(term) == "dumb");
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  sink->set_color_mode(plain ? spdlog::color_mode::never : spdlog::color_mode::always);
  auto logger = std::make_shared<spdlog::logger>("zrt", sink);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableMessage>('*').set_pattern("%^%l%$: %*");
  logger->set_formatter(std::move(formatter));
  spdlog::set_default_logger(logger);
}

}  // namespace zrt::core

#include "runtime/train/telemetry/sample_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zrt::runtime {

SampleLog::SampleLog(const std::filesystem::path& file, int64_t step, comm::Transport& transport,
                     std::chrono::milliseconds timeout, int first, int count)
    : transport_(transport), timeout_(timeout), first_(first), ranks_(static_cast<size_t>(count)) {
  if (transport.leads()) lines_.emplace(file, step);
}

void SampleLog::read(int rank, int64_t sample, const data::SampleOrigin& origin) {
  ranks_.at(static_cast<size_t>(rank - first_)).push_back({sample, origin});
}

void SampleLog::end_step(int64_t step) {
  std::vector<std::string> texts;
  for (std::vector<Sample>& samples : ranks_) {
    std::string text;
    for (const auto& [number, origin] : samples) {
      text += fmt::format("{}[{},{},{},{}]", text.empty() ? "" : ",", number, origin.dataset, origin.document,
                          origin.offset);
    }
    texts.push_back("[" + text + "]");
    samples.clear();
  }
  const std::vector<std::string> all = transport_.exchange(fmt::format("{}", fmt::join(texts, ",")), timeout_);
  if (lines_) lines_->add(fmt::format(R"({{"step":{},"ranks":[{}]}})", step, fmt::join(all, ",")));
}

std::string SampleLog::new_error() {
  const std::string error = lines_ ? lines_->error() : "";
  const bool is_new = error != error_;
  error_ = error;
  return is_new ? error : "";
}

}  // namespace zrt::runtime

// metrics.jsonl and evaluations.jsonl of a run: one line per step, and after a restart no step twice.
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include "runtime/train/telemetry/append_file.h"

namespace zrt::runtime {

class RunLog {
 public:
  // Keeps the lines of steps up to `from`; with 0 the file starts anew. Throws DataError.
  RunLog(const std::filesystem::path& file, int64_t from);

  void add(const std::string& json) { lines_->add(json + "\n"); }  // of one line, with a "step"
  double last_loss() const { return last_loss_; }                  // of the newest line kept; NaN where there is none
  const std::string& error() const { return lines_->error(); }     // why lines are being kept; "" when none are

 private:
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();
  std::optional<AppendFile> lines_;
};

}  // namespace zrt::runtime

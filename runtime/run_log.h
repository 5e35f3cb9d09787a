// metrics.jsonl of a run: one line per step, and after a restart no step twice.
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "runtime/metrics.h"

namespace zrt::runtime {

class RunLog {
 public:
  // Keeps the lines of steps up to `from`; with 0 the file starts anew. Throws DataError.
  RunLog(const std::filesystem::path& file, int64_t from);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  // Appends a line. A disk that takes it no more does not end a run: lines are kept and tried again with the next one.
  void add(const StepMetrics& metrics);
  double last_loss() const { return last_loss_; }      // of the newest line; NaN where there is none
  const std::string& error() const { return error_; }  // why lines are being kept; "" when none are

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  int64_t written_ = 0;  // bytes of whole lines
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();
  std::string kept_, error_;
};

}  // namespace zrt::runtime

// metrics.jsonl of a run: one line per step, and after a restart no step twice.
#pragma once
#include <cstdint>
#include <filesystem>
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
  const std::string& error() const { return error_; }  // why lines are being kept; "" when none are

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  int64_t written_ = 0;  // bytes of whole lines
  std::string kept_, error_;
};

}  // namespace zrt::runtime

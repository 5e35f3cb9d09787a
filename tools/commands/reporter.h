// Prints what `zrt train` shows: a live line on a terminal, plain lines otherwise, and the memory table at the end.
#pragma once
#include <chrono>
#include <string>

#include "runtime/train/trainer.h"

namespace zrt::tools {

class Reporter {
 public:
  // Writes to stderr; `interval` steps between plain lines (0: none).
  Reporter(int64_t steps, int64_t interval);
  void run_has(int64_t steps) { steps_ = steps; }
  void planned(std::span<const runtime::Compiled> stages);
  void step(const runtime::StepMetrics& metrics);
  void evaluated(int64_t step, const runtime::Evaluation& evaluation);
  void delinked(int64_t step, const std::vector<int64_t>& groups);
  void resumed(int64_t step, const std::string& folder, uint64_t host_bytes);
  void saved(const runtime::SaveOutcome& outcome);
  void warn(const std::string& text);
  void end_line();

 private:
  bool live_;
  int64_t steps_, interval_;
  int64_t first_step_ = 0;
  uint64_t rank_bytes_ = 0;
  int ranks_ = 1;
  std::chrono::steady_clock::time_point start_, last_;
  bool open_line_ = false;
};

// Every rank's device memory at the planned peak, by category, planned beside measured; then the process's own memory.
std::string memory_table(const runtime::MemoryReport& report);

// "held-out loss 1.9 nats per token, perplexity 6.7, 2.79 bits per byte; …"; of several datasets a table, too.
std::string evaluation_text(const runtime::Evaluation& evaluation);

}  // namespace zrt::tools

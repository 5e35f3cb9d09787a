// Records what a supervisor did and why: one JSON object per line in RUN/events.jsonl, and a line of the log.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/train/telemetry/append_file.h"

namespace zrt::runtime {

struct Event {
  std::string event;  // start, exit, hang, signal, restart, give_up, end
  int restart = 0;    // of the run at hand; 0: the first start
  int64_t step = 0;   // newest of metrics.jsonl
  std::string reason;
};

class EventLog {
 public:
  // Appends to `file`, whose folder must exist. A file that cannot be written is reported once and costs nothing else:
  // a full disk must not end a run that could go on. What it does not take is written with a later event.
  explicit EventLog(std::filesystem::path file) : file_(std::move(file)) {}
  void add(const Event& event);

 private:
  std::filesystem::path file_;
  std::optional<AppendFile> lines_;  // stays open: the folder may be renamed
  bool complained_ = false;
};

}  // namespace zrt::runtime

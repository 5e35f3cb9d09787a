// One step of trace.json: the ops of every rank by lane, and what the ranks held meanwhile.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace zrt::runtime::report {

struct TracedOp {
  std::string name, kind, details;  // details: "step 3, block h.0, 1.2 MiB"
  int lane = 0;
  double start_seconds = 0, end_seconds = 0;  // from the start of the step, on the rank that begins first
};

struct TracedMemory {
  double seconds = 0;
  std::map<std::string, double> bytes;  // by category
};

struct TracedRank {
  int rank = 0;
  int64_t step = 0;                  // from 1; 0: the trace has no whole step of it
  std::map<int, std::string> lanes;  // by number
  std::vector<TracedOp> ops;
  std::map<std::string, std::vector<TracedMemory>> memory;  // by tier
};

// The last traced step. Empty, with a note, when there is no such file; a damaged file gives what comes before the
// damage.
std::vector<TracedRank> read_trace(const std::filesystem::path& file, std::vector<std::string>& notes);

}  // namespace zrt::runtime::report

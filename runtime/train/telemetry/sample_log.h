// samples.jsonl: which samples the ranks read in each step, one line per step:
//   {"step":1,"ranks":[[[0,0,17,256],…],…]}
// with, by rank and in the order in which the rank reads them, each sample's number in the run's order and where it
// begins: dataset of data.train, document, token in the document. The first of ranks that read the same has them.
#pragma once
#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "runtime/data/sample_source.h"
#include "runtime/train/telemetry/run_log.h"

namespace zrt::runtime {

class SampleLog {
 public:
  // The process of rank 0 writes `file` for all; a run that goes on keeps the lines up to `step`. `first`, `count`: the
  // ranks of this process. Throws DataError.
  SampleLog(const std::filesystem::path& file, int64_t step, comm::Transport& transport,
            std::chrono::milliseconds timeout, int first, int count);

  // Any thread may call it, but one of each rank at a time.
  void read(int rank, int64_t sample, const data::SampleOrigin& origin);
  // Collective; no rank may be reading.
  void end_step(int64_t step);
  // Says what could not be written since the last call, and why; "" for nothing new. It ends no run.
  std::string new_error();

 private:
  struct Sample {
    int64_t number;
    data::SampleOrigin origin;
  };
  comm::Transport& transport_;
  const std::chrono::milliseconds timeout_;
  const int first_;
  std::vector<std::vector<Sample>> ranks_;  // of this process
  std::optional<RunLog> lines_;             // where rank 0 lives
  std::string error_;
};

}  // namespace zrt::runtime

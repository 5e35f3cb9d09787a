// Declarations that the files of the executor share.
#pragma once
#include <chrono>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/engine/executor.h"

namespace zrt::runtime {

// Returns the time of the machine's steady clock.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Executor::Queued {
  core::Anchor begin;  // of the compute lane
  struct Wait {        // of a lane that computes for one that does not
    core::Event before, after;
    bool comm;
    LaneKind lane;  // that waits
  };
  std::vector<Wait> waits;
  std::vector<core::Event> ends;  // of the lanes; without a state: no op runs there
  struct Traced {
    OpId op;
    uint32_t iteration;
    core::Event start, end;
    uint64_t received;
  };
  std::deque<Traced> traced;  // addresses of `received` stay
};

// Values that a GPU's kernels get as parameters and that may change from run to run.
struct Parameters {
  uint64_t seed = 0;
  uint32_t step = 0;
  int64_t position = 0;
  double loss_scale = 0;
  int64_t counted = -1;  // targets; routers alone take them
  bool operator==(const Parameters&) const = default;
};

struct Executor::Prepared {
  std::vector<uint8_t> signals;              // by op: another lane waits for it
  std::vector<uint8_t> lanes;                // whether ops run there; the compute lane always counts
  bool mixed = false;                        // on a GPU, with ops on lanes of the host
  std::vector<std::vector<BufferId>> ended;  // by execution of a serial run: transient buffers dead after it
  uint32_t runs = 0;                         // on a GPU
  std::optional<Parameters> last;            // of the last run there
  std::unique_ptr<core::Recording> recording;
  Queued recorded;
  std::map<OpKind, CommVolume> traffic;  // of one replay
  Moved moved;                           // of one replay
};

}  // namespace zrt::runtime

// Says what each lane of a program knows to have finished while one walks the executions in program order.
#pragma once
#include <algorithm>
#include <vector>

#include "runtime/program/program.h"
#include "runtime/program/timeline.h"

namespace zrt::runtime::verification {

class LaneClocks {
 public:
  explicit LaneClocks(const Program& program) : program_(program), latest_(program.ops.size()) {}

  // Takes in what the op waits for: of each op named, the latest execution so far.
  void start(OpId id) {
    const Op& op = program_.ops[id];
    Clock& clock = lanes_[op.lane];
    for (OpId other : op.waits) {
      for (size_t l = 0; l < max_lanes; ++l) clock[l] = std::max(clock[l], latest_[other][l]);
    }
  }
  void finish(OpId id) {
    Clock& clock = lanes_[program_.ops[id].lane];
    ++clock[program_.ops[id].lane];
    latest_[id] = clock;
  }

  uint32_t index(uint8_t lane) const { return lanes_[lane][lane]; }  // of the execution that is running on it
  // Executions of each lane that have finished before the one running on `lane`.
  const Clock& known(uint8_t lane) const { return lanes_[lane]; }

 private:
  const Program& program_;
  std::array<Clock, max_lanes> lanes_{};
  std::vector<Clock> latest_;  // by op: when its latest execution has finished
};

}  // namespace zrt::runtime::verification

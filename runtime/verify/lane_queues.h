// A program as its lanes see it: for each a queue of executions, with what each waits for of other lanes.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "runtime/program/program.h"
#include "runtime/program/timeline.h"
#include "runtime/verify/place.h"

namespace zrt::runtime::verification {

struct Need {
  uint8_t lane;
  uint32_t finished;  // executions of that lane
};

struct Queued {
  Place place;
  uint32_t first_need, needs;
};

struct LaneQueues {
  std::array<std::vector<Queued>, max_lanes> lanes;
  std::vector<Need> needs;
  std::span<const Need> needs_of(const Queued& queued) const {
    return {needs.data() + queued.first_need, queued.needs};
  }
};

inline LaneQueues make_queues(const Program& program) {
  LaneQueues queues;
  std::vector<uint32_t> finished(program.ops.size());  // by op: executions of its lane up to its latest
  for_each_execution(program, ~0u, [&](OpId id, uint32_t turn) {
    const Op& op = program.ops[id];
    const auto first = static_cast<uint32_t>(queues.needs.size());
    for (OpId other : op.waits) {
      if (finished[other] > 0) queues.needs.push_back({program.ops[other].lane, finished[other]});
    }
    auto& lane = queues.lanes[op.lane];
    lane.push_back({{id, turn}, first, static_cast<uint32_t>(queues.needs.size()) - first});
    finished[id] = static_cast<uint32_t>(lane.size());
  });
  return queues;
}

}  // namespace zrt::runtime::verification

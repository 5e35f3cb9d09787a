// The order in which a stage of a pipeline works on the microbatches of a step. Pure functions: nothing is compiled or
// timed here. GPipe (Huang et al. 2019), 1F1B (PipeDream-Flush), interleaved 1F1B (Narayanan et al. 2021) and ZB-H1 (Qi
// et al. 2024), with the orders of Megatron-LM and of the authors of ZB-H1.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/config/pipeline.h"

namespace zrt::runtime {

enum class WorkKind : uint8_t {
  forward,
  backward,         // the whole of it; or, where a schedule has weight gradients apart, of the input alone
  weight_gradient,  // what such a backward has left out
  load,             // of the microbatch's batch
  // Messages: a chunk hands outputs and gradients to its neighbours and gets theirs (runtime/program/link_order.h).
  receive_input,
  send_output,
  receive_gradient,
  send_gradient,
};
constexpr bool links(WorkKind kind) {
  return kind >= WorkKind::receive_input;
}

// The chunk is one of the stage's own, from 0; without interleaving there is one. Chunk c of stage s is number
// c × stages + s of the model's.
struct Work {
  WorkKind kind = WorkKind::forward;
  int32_t chunk = 0;
  int32_t microbatch = 0;
  bool operator==(const Work&) const = default;
};

// All that stage `stage` computes in a step, in order. The schedule must be a legal one. Loads and messages are not in
// it.
std::vector<Work> order(const Schedule& schedule, int32_t stage);

// The order of a rank that has all blocks: each block is a chunk.
struct BlockOrder {
  int32_t blocks = 1;
  int32_t microbatches = 1;
  int32_t together = 1;       // microbatches that go through the blocks side by side, block by block
  bool first_behind = false;  // the first block's backwards stand behind all others
};
std::vector<Work> order(const BlockOrder& blocks);

}  // namespace zrt::runtime

// The buffers of a program set in which the model states of a run lie.
#pragma once
#include <vector>

#include "runtime/program/program.h"

namespace zrt::runtime {

// By unit; no_buffer where a run does not have the state.
struct StateBuffers {
  std::vector<BufferId> weight, grad, master;
  std::vector<std::vector<BufferId>> states;  // [unit][state kind of the optimizer]; empty when not training
  // [unit]: copies in the host tier of what this rank adds to a checkpoint, made by the program "save": the logical
  // weights of its shard, then each state kind. Empty without that program.
  std::vector<std::vector<BufferId>> snapshot;
  BufferId control = no_buffer, shares = no_buffer;
  BufferId loads = no_buffer;  // of experts (expert_loads.h); while training
  // The control block whose decision updates read, where that is not their own step's: made ahead, or the last step's.
  // Norms go on writing `control` meanwhile.
  BufferId ahead = no_buffer;

  BufferId decided() const { return ahead != no_buffer ? ahead : control; }
  BufferId logical(size_t unit) const { return master[unit] != no_buffer ? master[unit] : weight[unit]; }
};

}  // namespace zrt::runtime

// What a rank's ops work with, besides the program: its communicator, its arena and the doors to the outside.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "comm/communicator.h"
#include "optimizer/optimizer.h"
#include "runtime/control.h"
#include "runtime/layout.h"

namespace zrt::runtime {

struct Rank {
  int number = 0;  // within the data-parallel group
  const Layout* layout = nullptr;
  comm::Communicator* dp = nullptr;
  std::shared_ptr<const optimizer::Optimizer> optimizer;
  optimizer::LossScaleParams loss_scale;
  double clip = 0;  // largest gradient norm; 0 for none
  uint64_t seed = 0;
  const Control* control = nullptr;  // in the arena; set by the executor

  // Fills micro_batch × sequence tokens and targets of one microbatch of the current step. A negative target is not
  // counted. Called on the to_device lane.
  std::function<void(uint32_t microbatch, int32_t* tokens, int32_t* targets)> batch;
  // Fills elements [begin, begin + out.size()) of a parameter; for the `load` program.
  std::function<void(const models::Param& param, int64_t begin, std::span<float> out)> load;
  // Takes a unit's logical fp32 weights; for the `save` program.
  std::function<void(const optimizer::Unit& unit, const float* weights)> save;
};

}  // namespace zrt::runtime

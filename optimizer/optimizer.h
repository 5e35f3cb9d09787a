// An optimizer as a strategy: what it keeps, what a step decides for it, and the update of a rank's part of a unit.
// Every number it writes must be a function of the element (and of exact sums) alone, so that shards, units and
// instruction sets do not show in the result.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "core/dtype.h"
#include "optimizer/schedule.h"
#include "optimizer/state.h"

namespace zrt::optimizer {

// How far training is: part of what a checkpoint keeps.
struct Progress {
  uint64_t updates = 0;  // steps taken; skipped ones do not count
  double beta1_power = 1, beta2_power = 1;
};

// What one taken step decides; lies in the control block, alike on all ranks.
struct Decision {
  double lr = 0;
  float grad_scale = 1;        // multiplies gradients: 1 / loss scale, and the clip factor
  float beta1 = 0, beta2 = 0;  // of Adam and Lion, as scheduled
  float bias_correction1 = 1;  // 1 - beta1^t, or 1
  float bias_correction2 = 1;
};

// The part of a unit that a call works on: elements [begin, begin + count), multiples of 64. All pointers but those of
// states that are not sharded lie at `begin`.
struct UnitPart {
  const Unit* unit = nullptr;
  int64_t begin = 0, count = 0;
  float* master = nullptr;  // fp32 weights
  const void* grad = nullptr;
  core::DType grad_type = core::DType::f32;
  void* weight = nullptr;  // copy of the new weights in weight_type; null where the master is the weight
  core::DType weight_type = core::DType::f32;
  std::span<float* const> states;  // in the order of states()
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::vector<UnitState> states(const Unit& unit) const = 0;
  // Counts one more step and fills everything but grad_scale, which is set. The default takes lr alone.
  virtual void decide(const Rates& rates, Progress& progress, Decision& decision) const;
  // Uses core::parallel_for.
  virtual void update(const Decision& decision, const UnitPart& part) const = 0;
};

std::shared_ptr<const Optimizer> make_optimizer(const OptimizerParams& params);

// One maker per optimizer, each in its own file.
std::shared_ptr<const Optimizer> make_optimizer(const AdamParams& params);

}  // namespace zrt::optimizer

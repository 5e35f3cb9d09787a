// Learning-rate schedules by the names and formulas of transformers (get_scheduler): a factor of optimizer.params.lr
// for the step after `taken` steps. A warm-up rises linearly from 0, which is the rate of the first step. Megatron's
// schedules of the same names differ: their warm-up and decay have floors in rates, and inverse square roots no shift.
#pragma once
#include <cstdint>

namespace zrt::optimizer {

enum class NamedShape : uint8_t {
  constant_with_warmup,
  linear,
  cosine,  // with a floor, too
  cosine_with_restarts,
  polynomial,
  inverse_sqrt,
  warmup_stable_decay,
};

// The curves of warmup_stable_decay; with root its warm-up is 1 - sqrt(1 - x), its decay 1 - sqrt(x).
enum class Bend : uint8_t { linear, cosine, root };

struct NamedSchedule {
  NamedShape shape = NamedShape::linear;
  int64_t warmup = 0, total = 0;  // steps
  double cycles = 0.5;            // of the cosine over all steps behind the warm-up
  double floor = 0;               // the lowest factor; of warmup_stable_decay the first, too
  double power = 1;               // of polynomial
  int64_t timescale = 10000;      // of inverse_sqrt, steps
  int64_t stable = 0, decay = 0;  // of warmup_stable_decay, steps
  Bend warmup_bend = Bend::linear, decay_bend = Bend::cosine;

  double factor(int64_t taken) const;
};

}  // namespace zrt::optimizer

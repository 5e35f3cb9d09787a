// Learning-rate schedules with DeepSpeed's laws, and those of named_schedule.h. The rate used by step t (0 for the
// first) is what DeepSpeed's scheduler has set when its optimizer runs that step.
//
// DeepSpeed's warm-up schedulers set warmup_min_lr (cosine: 0) when they are made, and move to the law's value at t
// after the optimizer's step t. So step 0 runs at that first rate, step 1 at the law's t = 0 (again warmup_min_lr, or
// warmup_min_ratio · lr), and step s at the law's t = s - 1. A skipped step does not move the scheduler: count only
// steps that were taken.
#pragma once
#include <cstdint>

#include "optimizer/named_schedule.h"

namespace zrt::optimizer {

enum class ScheduleType : uint8_t { constant, warmup, warmup_decay, warmup_cosine, one_cycle, lr_range_test, named };
enum class WarmupType : uint8_t { log, linear };

// The values that a schedule sets for one step.
struct Rates {
  double lr = 0;
  bool betas = false;  // whether beta1 and beta2 replace the optimizer's own
  double beta1 = 0, beta2 = 0;
};

// One cycle from min to max and back over first + second steps, then a decay below min. Momentum (beta1) moves the
// other way, and beta2 is 0.99 all the time. Starts with min_lr and min_mom; then the law's value at t is that of
// t + 1 steps into the cycle. With stairs a half moves in so many jumps of equal height, each at the end of its stair;
// 0 stairs: with every step.
// (Smith, "A disciplined approach to neural network hyper-parameters", 2018.)
struct OneCycle {
  double min_lr = 0, max_lr = 0, decay_lr_rate = 0;
  int64_t first_step_size = 2000, second_step_size = 2000, decay_step_size = 0;
  int64_t first_stair_count = 0, second_stair_count = 0;
  bool momentum = true;
  double min_mom = 0.8, max_mom = 0.9, decay_mom_rate = 0;
};

// Starts with min_lr; then min_lr · (1 + step_rate · (t + 1) / step_size), the quotient rounded down with `staircase`.
struct LrRangeTest {
  double min_lr = 1e-3, step_rate = 1;
  int64_t step_size = 2000;
  bool staircase = false;
};

struct Schedule {
  ScheduleType type = ScheduleType::constant;
  WarmupType warmup_type = WarmupType::log;
  double lr = 1e-3;  // optimizer.params.lr: constant, and the base of warmup_cosine
  double warmup_min_lr = 0, warmup_max_lr = 1e-3;
  double warmup_min_ratio = 0, cos_min_ratio = 1e-4;
  int64_t warmup_num_steps = 1000, total_num_steps = 0;
  OneCycle one_cycle;
  LrRangeTest range_test;
  NamedSchedule named;
  Rates rates(int64_t taken) const;  // of the step after `taken` steps
  double rate(int64_t taken) const { return rates(taken).lr; }
};

}  // namespace zrt::optimizer

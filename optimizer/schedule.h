// Learning-rate schedules with DeepSpeed's laws. The rate used by step t (0 for the first) is what DeepSpeed's
// scheduler has set when its optimizer runs that step.
//
// DeepSpeed's scheduler sets warmup_min_lr (cosine: 0) when it is made, and moves to the law's value at t after the
// optimizer's step t. So step 0 runs at that first rate, step 1 at the law's t = 0 (again warmup_min_lr, or
// warmup_min_ratio · lr), and step s at the law's t = s - 1. A skipped step does not move the scheduler: count only
// steps that were taken.
#pragma once
#include <cstdint>

namespace zrt::optimizer {

enum class ScheduleType : uint8_t { constant, warmup, warmup_decay, warmup_cosine };
enum class WarmupType : uint8_t { log, linear };

struct Schedule {
  ScheduleType type = ScheduleType::constant;
  WarmupType warmup_type = WarmupType::log;
  double lr = 1e-3;  // optimizer.params.lr: constant, and the base of warmup_cosine
  double warmup_min_lr = 0, warmup_max_lr = 1e-3;
  double warmup_min_ratio = 0, cos_min_ratio = 1e-4;
  int64_t warmup_num_steps = 1000, total_num_steps = 0;
  double rate(int64_t step) const;
};

}  // namespace zrt::optimizer

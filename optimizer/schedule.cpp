#include "optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zrt::optimizer {
namespace {

// The rising part, 0 at t = 0 and 1 from t = warmup on.
double warmup_factor(WarmupType type, int64_t t, int64_t warmup) {
  if (t >= warmup) return 1;
  if (type == WarmupType::linear) return static_cast<double>(t) / static_cast<double>(warmup);
  return 1.0 / std::log(static_cast<double>(warmup)) * std::log(static_cast<double>(t + 1));
}

double cosine_ratio(const Schedule& s, int64_t t, int64_t warmup) {
  if (t < warmup) return s.warmup_min_ratio + warmup_factor(s.warmup_type, t, warmup) * (1 - s.warmup_min_ratio);
  const double length = static_cast<double>(std::max<int64_t>(1, s.total_num_steps - warmup));
  const double progress = std::min(1.0, static_cast<double>(t - warmup + 1) / length);
  return s.cos_min_ratio + (1 - s.cos_min_ratio) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

double decay_factor(const Schedule& s, int64_t t, int64_t warmup) {
  if (t < warmup) return warmup_factor(s.warmup_type, t, warmup);
  const double length = static_cast<double>(std::max<int64_t>(1, s.total_num_steps - warmup));
  return std::max(0.0, static_cast<double>(s.total_num_steps - t) / length);
}

}  // namespace

double Schedule::rate(int64_t step) const {
  if (type == ScheduleType::constant) return lr;
  const bool cosine = type == ScheduleType::warmup_cosine;
  if (step <= 0) return cosine ? 0 : warmup_min_lr;  // set when the scheduler is made, before it has stepped
  const int64_t t = step - 1;
  const int64_t warmup = std::max<int64_t>(2, warmup_num_steps);
  if (cosine) return lr * cosine_ratio(*this, t, warmup);
  const double factor =
      type == ScheduleType::warmup ? warmup_factor(warmup_type, t, warmup) : decay_factor(*this, t, warmup);
  return warmup_min_lr + (warmup_max_lr - warmup_min_lr) * factor;
}

}  // namespace zrt::optimizer

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

// Returns the cycle's distance from its minimum, 0 to 1, after `taken` steps.
double cycle_height(const OneCycle& c, int64_t taken) {
  const double first = static_cast<double>(c.first_step_size), second = static_cast<double>(c.second_step_size);
  const double total = first + second, turn = first / total;
  // Stairs are counted in whole steps: a height that is a hair below a stair would fall a whole one.
  const double into = static_cast<double>(taken % (c.first_step_size + c.second_step_size));
  const bool rising = into <= first;
  const auto stairs = static_cast<double>(rising ? c.first_stair_count : c.second_stair_count);
  if (stairs > 0) return std::floor(rising ? into * stairs / first : (total - into) * stairs / second) / stairs;
  const double x = 1 + static_cast<double>(taken) / total - std::floor(1 + static_cast<double>(taken) / total);
  return x <= turn ? x / turn : (x - 1) / (turn - 1);
}

Rates one_cycle_rates(const OneCycle& c, int64_t taken) {
  Rates rates{c.min_lr, c.momentum, c.min_mom, 0.99};
  if (taken <= 0) return rates;
  const int64_t after = taken - c.first_step_size - c.second_step_size;
  if (after <= 0) {
    const double height = cycle_height(c, taken);
    rates.lr = c.min_lr + (c.max_lr - c.min_lr) * height;
    rates.beta1 = c.max_mom - (c.max_mom - c.min_mom) * height;
    return rates;
  }
  rates.beta1 = c.max_mom;
  if (c.decay_step_size == 0) return rates;
  const double interval = static_cast<double>(after) / static_cast<double>(c.decay_step_size);
  rates.lr = c.min_lr / (1 + c.decay_lr_rate * interval);
  rates.beta1 = c.max_mom * (1 + c.decay_mom_rate * interval);
  return rates;
}

double range_test_rate(const LrRangeTest& r, int64_t taken) {
  const double interval = static_cast<double>(std::max<int64_t>(0, taken)) / static_cast<double>(r.step_size);
  return r.min_lr * (1 + r.step_rate * (r.staircase ? std::floor(interval) : interval));
}

double warmup_rate(const Schedule& s, int64_t taken) {
  const bool cosine = s.type == ScheduleType::warmup_cosine;
  if (taken <= 0) return cosine ? 0 : s.warmup_min_lr;  // set when the scheduler is made, before it has stepped
  const int64_t t = taken - 1;
  const int64_t warmup = std::max<int64_t>(2, s.warmup_num_steps);
  if (cosine) return s.lr * cosine_ratio(s, t, warmup);
  const double factor =
      s.type == ScheduleType::warmup ? warmup_factor(s.warmup_type, t, warmup) : decay_factor(s, t, warmup);
  return s.warmup_min_lr + (s.warmup_max_lr - s.warmup_min_lr) * factor;
}

}  // namespace

Rates Schedule::rates(int64_t taken) const {
  switch (type) {
    case ScheduleType::constant:
      return {lr};
    case ScheduleType::one_cycle:
      return one_cycle_rates(one_cycle, taken);
    case ScheduleType::lr_range_test:
      return {range_test_rate(range_test, taken)};
    case ScheduleType::named:
      return {lr * named.factor(taken)};
    default:
      return {warmup_rate(*this, taken)};
  }
}

}  // namespace zrt::optimizer

#include "optimizer/named_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zrt::optimizer {
namespace {

double share(int64_t steps, int64_t of) {
  return static_cast<double>(steps) / static_cast<double>(std::max<int64_t>(1, of));
}

// Half a wave from 1 to 0 for each cycle of a half.
double wave(double cycles, double progress) {
  return 0.5 * (1 + std::cos(std::numbers::pi * cycles * 2 * progress));
}

double rising(Bend bend, double progress) {
  if (bend == Bend::cosine) return 0.5 * (1 - std::cos(std::numbers::pi * progress));
  return bend == Bend::root ? 1 - std::sqrt(1 - progress) : progress;
}

double falling(const NamedSchedule& s, double progress) {
  if (s.decay_bend == Bend::cosine) return wave(s.cycles, progress);
  return s.decay_bend == Bend::root ? 1 - std::sqrt(progress) : 1 - progress;
}

double above(double floor, double factor) {
  return std::max(0.0, factor * (1 - floor) + floor);
}

double stable_decay(const NamedSchedule& s, int64_t taken) {
  if (taken < s.warmup) return above(s.floor, rising(s.warmup_bend, share(taken, s.warmup)));
  const int64_t behind = taken - s.warmup - s.stable;
  if (behind < 0) return 1;
  return behind < s.decay ? above(s.floor, falling(s, share(behind, s.decay))) : s.floor;
}

double polynomial(const NamedSchedule& s, int64_t taken) {
  if (taken > s.total) return s.floor;
  const double left = 1 - share(taken - s.warmup, s.total - s.warmup);
  return (1 - s.floor) * std::pow(left, s.power) + s.floor;
}

}  // namespace

double NamedSchedule::factor(int64_t taken) const {
  if (shape == NamedShape::warmup_stable_decay) return stable_decay(*this, taken);
  if (taken < warmup) return share(taken, warmup);
  const double progress = share(taken - warmup, total - warmup);
  switch (shape) {
    case NamedShape::linear:
      return std::max(0.0, share(total - taken, total - warmup));
    case NamedShape::cosine:
      return above(floor, wave(cycles, progress));
    case NamedShape::cosine_with_restarts:
      return progress >= 1 ? 0 : std::max(0.0, wave(0.5, std::fmod(cycles * progress, 1.0)));
    case NamedShape::polynomial:
      return polynomial(*this, taken);
    case NamedShape::inverse_sqrt:
      return 1 / std::sqrt(share(taken + timescale - warmup, timescale));
    default:
      return 1;
  }
}

}  // namespace zrt::optimizer

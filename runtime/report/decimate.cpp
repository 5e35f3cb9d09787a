#include "runtime/report/decimate.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

namespace zrt::runtime::report {
namespace {

// The smallest and the largest finite value of y[begin, end), in their order.
std::pair<double, double> extremes(const std::vector<double>& y, size_t begin, size_t end) {
  size_t low = end, high = end;
  for (size_t i = begin; i < end; ++i) {
    if (!std::isfinite(y[i])) continue;
    if (low == end || y[i] < y[low]) low = i;
    if (high == end || y[i] > y[high]) high = i;
  }
  if (low == end) return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  return low < high ? std::pair{y[low], y[high]} : std::pair{y[high], y[low]};
}

}  // namespace

Points decimate(Points points, size_t most) {
  const size_t count = points.x.size(), buckets = most / 2;
  if (count <= most) {
    points.labels.resize(count);
    return points;
  }
  Points fewer;
  fewer.y.resize(points.y.size());
  for (size_t b = 0; b < buckets; ++b) {
    const size_t begin = count * b / buckets, end = count * (b + 1) / buckets;
    for (const size_t at : {begin, end - 1}) {
      fewer.x.push_back(points.x[at]);
      fewer.labels.push_back(fmt::format("{:.6g} to {:.6g}: lowest and highest", points.x[begin], points.x[end - 1]));
    }
    for (size_t s = 0; s < points.y.size(); ++s) {
      const auto [first, second] = extremes(points.y[s], begin, end);
      fewer.y[s].push_back(first);
      fewer.y[s].push_back(second);
    }
  }
  return fewer;
}

}  // namespace zrt::runtime::report

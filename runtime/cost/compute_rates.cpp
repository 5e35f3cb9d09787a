#include "runtime/cost/compute_rates.h"

#include <algorithm>
#include <cmath>

namespace zrt::runtime {

double Curve::operator()(double at) const {
  const auto above = std::find_if(points.begin(), points.end(), [&](const Point& p) { return p.at >= at; });
  if (above == points.begin()) return points.front().value;
  if (above == points.end()) return points.back().value;
  const Point &a = above[-1], &b = *above;
  const double part = std::log(at / a.at) / std::log(b.at / a.at);
  return a.value * std::pow(b.value / a.value, part);
}

double ComputeRates::gemm_efficiency(double M, double N, double K, double count) const {
  if (!tiles) return gemm(std::min({M, N, K}));
  const auto side = static_cast<double>(tiles->side), at_once = static_cast<double>(tiles->multiprocessors);
  const double squares = count * std::ceil(M / side) * std::ceil(N / side);
  const double room = std::ceil(squares / at_once) * at_once * side * side;
  return tiles->efficiency * count * M * N / room * K / (K + tiles->half_depth);
}

double ComputeRates::gemm_seconds(double M, double N, double K, double count) const {
  return 2 * count * M * N * K / (peak_flops_per_second * gemm_efficiency(M, N, K, count));
}

}  // namespace zrt::runtime

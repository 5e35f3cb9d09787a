// The rates at which a rank computes, by the sizes of what it computes.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace zrt::runtime {

// A quantity at some sizes; between them it follows straight lines on logarithmic scales, beyond them it stays.
struct Curve {
  struct Point {
    double at, value;  // both positive; `at` ascending
  };
  std::vector<Point> points;
  double operator()(double at) const;
};

// A GPU makes a product in squares of the result, as many at a time as there are multiprocessors.
struct Tiles {
  double efficiency = 1;        // of products that fill all multiprocessors and have a large K
  int64_t multiprocessors = 1;  // those without a square in the last round wait
  int64_t side = 1;             // of a square
  double half_depth = 0;        // K / (K + half_depth) of a square's time are its products
};

// The rates of one rank in one type. Efficiencies are shares of the peak.
struct ComputeRates {
  double peak_flops_per_second = 0;
  Curve gemm;                        // efficiency by the smallest dimension of the product, where there are no tiles
  Curve attention_forward;           // efficiency of causal attention by sequence length; half of the square is counted
  Curve attention_backward;          // the same for its backward, of two and a half times the FLOPs
  double pass_bytes_per_second = 0;  // activations through norms, activation functions, residual sums
  double sum_bytes_per_second = 0;   // what a reduction adds up: all ranks' shares of what it receives
  std::optional<Tiles> tiles{};
  double gemm_efficiency(double M, double N, double K, double count = 1) const;  // of `count` products at once
  double gemm_seconds(double M, double N, double K, double count = 1) const;
};

}  // namespace zrt::runtime

// Exact sums of fp64 numbers in three doubles, cheap enough for one sum per row and column of a matrix. Every number is
// split at fixed bit positions below a bound that all ranks know; each part is added where no rounding can happen, so
// the result depends on neither order nor grouping.
// (Demmel and Nguyen, "Fast Reproducible Floating-Point Summation", 2013.)
#pragma once
#include <cmath>
#include <cstdint>

#include "core/host_device.h"

namespace zrt::optimizer {

inline constexpr int bin_count = 3;
inline constexpr int64_t most_terms = int64_t{1} << 24;  // of one sum

// For numbers x ≥ 0 whose sum is at most `bound`: part k of x is (rest + at[k]) − at[k], which rounds to a multiple of
// unit k; the last rest is dropped. Units lie 2^-51, 2^-80 and 2^-109 below the bound: the first part of all numbers
// together, and most_terms second or third parts, stay below 2^53 units.
struct Bins {
  double at[bin_count];
};

ZRT_HD inline Bins make_bins(double bound) {
  if (!(bound > 0)) return {{0, 0, 0}};  // all numbers are 0
  const int exponent = std::ilogb(bound) + 1;
  return {{std::ldexp(1.5, exponent + 1), std::ldexp(1.5, exponent - 28), std::ldexp(1.5, exponent - 57)}};
}

// The parts of one number.
struct BinParts {
  double part[bin_count];
};
ZRT_HD inline BinParts split_bins(const Bins& bins, double x) {
  const double part0 = (x + bins.at[0]) - bins.at[0], rest = x - part0;
  const double part1 = (rest + bins.at[1]) - bins.at[1];
  return {{part0, part1, ((rest - part1) + bins.at[2]) - bins.at[2]}};
}

// The sum of the exact sums of parts, rounded.
ZRT_HD inline double binned_value(double sum0, double sum1, double sum2) {
  return (sum0 + sum1) + sum2;
}

}  // namespace zrt::optimizer

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/error.h"
#include "core/parallel.h"
#include "optimizer/host_optimizer.h"
#include "optimizer/norm_kernels.h"

namespace zrt::optimizer {
namespace {

constexpr int low_exponent = -190;  // of bit 0
// Chunk sums from here on count as non-finite, so that 2^34 chunks (10^12 elements) cannot leave the 320 bits. An
// element reaches it only at 2^44 or more, long after a run has diverged.
constexpr double chunk_limit = 0x1p95;
constexpr int64_t chunk = 64;  // elements

using Limbs = std::array<uint64_t, 5>;

// limbs += sign · mantissa · 2^shift
void add_shifted(Limbs& limbs, uint64_t mantissa, int shift, bool negative) {
  const size_t first = static_cast<size_t>(shift / 64);
  const int bit = shift % 64;
  const uint64_t low = mantissa << bit, high = bit == 0 ? 0 : mantissa >> (64 - bit);
  uint64_t carry = 0;
  for (size_t i = first; i < limbs.size(); ++i) {
    const uint64_t part = i == first ? low : i == first + 1 ? high : 0;
    if (i > first + 1 && carry == 0) return;
    const uint64_t old = limbs[i];
    if (negative) {
      limbs[i] = old - part - carry;
      carry = old < part || (carry && old == part) ? 1 : 0;
    } else {
      limbs[i] = old + part + carry;
      carry = limbs[i] < old || (carry && limbs[i] == old) ? 1 : 0;
    }
  }
}

Limbs negate(const Limbs& limbs) {
  Limbs result;
  uint64_t carry = 1;
  for (size_t i = 0; i < limbs.size(); ++i) {
    result[i] = ~limbs[i] + carry;
    carry = carry && result[i] == 0 ? 1 : 0;
  }
  return result;
}

}  // namespace

const NormKernels& norm_kernels(core::Isa isa) {
  static constexpr std::array<const NormKernels*, 3> tables{&norm_kernels_baseline, &norm_kernels_v3, &norm_kernels_v4};
  return *tables[static_cast<size_t>(isa)];
}

// Bits of the sum below 2^-190 are rounded away (half up in magnitude), for each chunk sum by itself.
void ExactSum::add(double chunk_sum) {
  if (!(std::abs(chunk_sum) < chunk_limit)) {
    ++non_finite;
    return;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(chunk_sum);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
  if (exponent == 0) return;  // zero or below 2^-1022
  uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  int shift = exponent - 1075 - low_exponent;
  if (shift < 0) {
    if (shift < -53) return;
    mantissa = (mantissa + (uint64_t{1} << (-shift - 1))) >> -shift;
    shift = 0;
  }
  add_shifted(limbs, mantissa, shift, (bits >> 63) != 0);
}

void ExactSum::add(const ExactSum& other) {
  uint64_t carry = 0;
  for (size_t i = 0; i < limbs.size(); ++i) {
    const uint64_t old = limbs[i];
    limbs[i] = old + other.limbs[i] + carry;
    carry = limbs[i] < old || (carry && limbs[i] == old) ? 1 : 0;
  }
  non_finite += other.non_finite;
}

double ExactSum::value() const {
  if (non_finite != 0) return std::numeric_limits<double>::quiet_NaN();
  const bool negative = (limbs.back() >> 63) != 0;
  const Limbs magnitude = negative ? negate(limbs) : limbs;
  int top = static_cast<int>(magnitude.size()) - 1;
  while (top > 0 && magnitude[static_cast<size_t>(top)] == 0) --top;
  const size_t t = static_cast<size_t>(top);
  if (magnitude[t] == 0) return 0;
  // The leading 64 bits, with all lower bits folded into the last one, convert to fp64 with one correct rounding.
  const int empty = std::countl_zero(magnitude[t]);
  uint64_t leading = magnitude[t] << empty;
  bool rest = false;
  if (t > 0) {
    if (empty > 0) leading |= magnitude[t - 1] >> (64 - empty);
    rest = (magnitude[t - 1] << empty) != 0;
    for (size_t i = 0; i + 1 < t; ++i) rest = rest || magnitude[i] != 0;
  }
  if (rest) leading |= 1;
  const double result = std::ldexp(static_cast<double>(leading), 64 * top - empty + low_exponent);
  return negative ? -result : result;
}

void add_squares(ExactSum& sum, int64_t n, const void* data, DType type) {
  if (n < 0 || n % chunk != 0) {
    throw core::Error(fmt::format("add_squares: {} elements; legal are multiples of {}", n, chunk));
  }
  if (type != DType::f32 && type != DType::bf16 && type != DType::f16) {
    throw core::Error(
        fmt::format("add_squares: elements of {}; legal are fp32, bf16 and fp16", core::dtype_name(type)));
  }
  const auto kernel = norm_kernels(core::best_isa()).chunk_squares[static_cast<size_t>(type)];
  const size_t chunk_bytes = static_cast<size_t>(chunk) * core::dtype_size(type);
  std::mutex mutex;  // the order in which threads add does not matter: the sum is exact
  core::parallel_for(n / chunk, 1, [&](int64_t begin, int64_t end) {
    constexpr int64_t batch = 64;
    double squares[batch];
    ExactSum part;
    for (int64_t c = begin; c < end; c += batch) {
      const int64_t count = std::min(batch, end - c);
      kernel(static_cast<const std::byte*>(data) + static_cast<size_t>(c) * chunk_bytes, count, squares);
      for (int64_t i = 0; i < count; ++i) part.add(squares[i]);
    }
    std::lock_guard lock(mutex);
    sum.add(part);
  });
}

}  // namespace zrt::optimizer

// Casts, stochastic rounding and sums kept in two halves.
#include "models/kernels/cuda/dropout.cuh"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/rounding.h"

namespace zrt::models::cuda {
namespace {

template <class From, class To>
struct Cast {
  const From* from;
  To* to;
  struct Inputs {
    Raw<From> x;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(from + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float x[group];
    unpack<From>(in.x, x);
    save(to + at, left, x);
  }
};

struct RoundStochastic {
  const float* x;
  core::bf16* y;
  core::RngKey key;
  uint64_t first;
  struct Inputs {
    Raw<float> x;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(x + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float v[group];
    uint32_t words[group];
    unpack<float>(in.x, v);
    random_words(key, first + static_cast<uint64_t>(at), words);
#pragma unroll
    for (int i = 0; i < group; ++i) v[i] = core::to_float(core::to_bf16(v[i], words[i]));
    save_high(y + at, left, v);
  }
};

struct SplitAdd {
  const float* x;
  core::bf16 *hi, *lo;  // lo: the low halves, never read as numbers
  bool first, keep, last;
  struct Inputs {
    Raw<float> x;
    Raw<core::bf16> hi, lo;
  };
  __device__ Inputs load(int64_t at, int64_t left) const {
    Inputs in{load_raw(x + at, left), {}, {}};
    if (!first || keep) in.hi = load_raw(hi + at, left);
    if (!first) in.lo = load_raw(lo + at, left);
    return in;
  }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float v[group], high[group], low[group];
    unpack<float>(in.x, v), unpack<core::bf16>(in.hi, high), unpack<core::bf16>(in.lo, low);
#pragma unroll
    for (int i = 0; i < group; ++i) {
      v[i] += __uint_as_float(__float_as_uint(high[i]) | __float_as_uint(low[i]) >> 16);
    }
    if (last) return save(hi + at, left, v);
    save_high(hi + at, left, v);
#pragma unroll
    for (int i = 0; i < group; ++i) v[i] = __uint_as_float(__float_as_uint(v[i]) << 16);
    save_high(lo + at, left, v);
  }
};

}  // namespace

void cast(DType from_type, const void* from, DType to_type, void* to, int64_t n) {
  with_type(from_type, [&](auto from_zero) {
    with_type(to_type, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      run_elementwise(Cast<From, To>{static_cast<const From*>(from), static_cast<To*>(to)}, n);
    });
  });
}

void round_stochastic(const float* x, core::bf16* y, const core::RngKey& key, uint64_t first, int64_t n) {
  run_elementwise(RoundStochastic{x, y, key, first}, n);
}

void split_add(const float* x, core::bf16* hi, uint16_t* lo, SumPart part, bool accumulate, int64_t n) {
  run_elementwise(
      SplitAdd{x, hi, reinterpret_cast<core::bf16*>(lo), part == SumPart::first, accumulate, part == SumPart::last}, n);
}

}  // namespace zrt::models::cuda

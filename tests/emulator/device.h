// The language of kernels: built-in variables, memory spaces, and what the threads of a block do together. All threads
// of a block take turns on one thread of the host, one block after the other, so shared memory is static memory.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define __CUDACC__ 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};

#define ZRT_VECTOR(name, type, count, align) \
  struct alignas(align) name { \
    type ZRT_VECTOR_##count; \
  };
#define ZRT_VECTOR_2 x, y
#define ZRT_VECTOR_4 x, y, z, w
ZRT_VECTOR(float2, float, 2, 8)
ZRT_VECTOR(float4, float, 4, 16)
ZRT_VECTOR(double2, double, 2, 16)
ZRT_VECTOR(int2, int, 2, 8)
ZRT_VECTOR(int4, int, 4, 16)
ZRT_VECTOR(uint2, unsigned, 2, 8)
ZRT_VECTOR(uint4, unsigned, 4, 16)
#define ZRT_MAKE2(name, type) \
  inline name make_##name(type x, type y) { \
    return {x, y}; \
  }
#define ZRT_MAKE4(name, type) \
  inline name make_##name(type x, type y, type z, type w) { \
    return {x, y, z, w}; \
  }
ZRT_MAKE2(float2, float)
ZRT_MAKE4(float4, float)
ZRT_MAKE2(double2, double)
ZRT_MAKE2(int2, int)
ZRT_MAKE4(int4, int)
ZRT_MAKE2(uint2, unsigned)
ZRT_MAKE4(uint4, unsigned)

namespace zrt::emulator {

struct Thread {
  uint3 thread, block;
  dim3 block_extent, grid_extent;
  unsigned lane = 0;
};
extern Thread now;  // of the thread whose turn it is

std::byte* shared_memory();  // dynamic, of the block

void sync_block();
bool sync_block_or(bool value);
// The lanes of `mask` must all come here. Each gives some words and gets those of all lanes of its warp.
using Words = std::array<uint64_t, 3>;
const Words* sync_warp(unsigned mask, const Words& given);

template <class T>
uint64_t packed(T value) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T unpacked(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
T shuffled(unsigned mask, T value, unsigned from) {
  return unpacked<T>(sync_warp(mask, {packed(value)})[from][0]);
}

}  // namespace zrt::emulator

inline uint3& threadIdx = zrt::emulator::now.thread;
inline uint3& blockIdx = zrt::emulator::now.block;
inline dim3& blockDim = zrt::emulator::now.block_extent;
inline dim3& gridDim = zrt::emulator::now.grid_extent;
inline constexpr int warpSize = 32;

inline void __syncthreads() {
  zrt::emulator::sync_block();
}
inline int __syncthreads_or(int value) {
  return zrt::emulator::sync_block_or(value != 0);
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  zrt::emulator::sync_warp(mask, {});
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const unsigned base = zrt::emulator::now.lane / static_cast<unsigned>(width) * static_cast<unsigned>(width);
  return zrt::emulator::shuffled(mask, value, base + static_cast<unsigned>(lane) % static_cast<unsigned>(width));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  const unsigned own = zrt::emulator::now.lane, from = own ^ static_cast<unsigned>(bits);
  const bool inside = from / static_cast<unsigned>(width) <= own / static_cast<unsigned>(width);
  return zrt::emulator::shuffled(mask, value, inside ? from : own);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int by, int width = 32) {
  const unsigned own = zrt::emulator::now.lane, from = own + static_cast<unsigned>(by);
  const bool inside = from / static_cast<unsigned>(width) == own / static_cast<unsigned>(width);
  return zrt::emulator::shuffled(mask, value, inside ? from : own);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int by, int width = 32) {
  const unsigned own = zrt::emulator::now.lane;
  const bool inside = own % static_cast<unsigned>(width) >= static_cast<unsigned>(by);
  return zrt::emulator::shuffled(mask, value, inside ? own - static_cast<unsigned>(by) : own);
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  const zrt::emulator::Words* all = zrt::emulator::sync_warp(mask, {zrt::emulator::packed(value)});
  unsigned equal = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1u) != 0 && all[lane][0] == zrt::emulator::packed(value)) equal |= 1u << lane;
  }
  return equal;
}
inline unsigned __ballot_sync(unsigned mask, int value) {
  const zrt::emulator::Words* all = zrt::emulator::sync_warp(mask, {value != 0});
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane) bits |= (mask >> lane & 1u) != 0 && all[lane][0] != 0 ? 1u << lane : 0;
  return bits;
}

// Threads take turns, so plain operations are atomic.
template <class T, class U>
T atomicAdd(T* at, U value) {
  const T old = *at;
  *at = static_cast<T>(old + static_cast<T>(value));
  return old;
}
template <class T, class U>
T atomicCAS(T* at, U expected, U value) {
  const T old = *at;
  if (old == static_cast<T>(expected)) *at = static_cast<T>(value);
  return old;
}
template <class T, class U>
T atomicMax(T* at, U value) {
  const T old = *at;
  *at = std::max(old, static_cast<T>(value));
  return old;
}
inline void __threadfence() {}
inline void __nanosleep(unsigned) {}

using std::max;
using std::min;
template <class A, class B>
requires(!std::is_same_v<A, B> && std::is_arithmetic_v<A> && std::is_arithmetic_v<B>) constexpr auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return std::min(static_cast<T>(a), static_cast<T>(b));
}
template <class A, class B>
requires(!std::is_same_v<A, B> && std::is_arithmetic_v<A> && std::is_arithmetic_v<B>) constexpr auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return std::max(static_cast<T>(a), static_cast<T>(b));
}

inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __logf(float x) {
  return std::log(x);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsqrt_rn(float a) {
  return std::sqrt(a);
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline double __dsqrt_rn(double a) {
  return std::sqrt(a);
}
inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
inline float __frcp_rn(float x) {
  return 1.0f / x;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}

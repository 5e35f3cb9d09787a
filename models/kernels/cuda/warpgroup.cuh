// Products that the four warps of a group of 128 threads make together (wgmma of sm_90a, PTX manual, "Asynchronous
// warpgroup level matrix instructions"). They read tiles of shared memory as SharedTile<64> lays them out, from
// addresses that are multiples of 1,024 bytes, and go on while the threads do something else. All threads of a group
// call these functions together.
//
//   fence_tiles();           by the threads that wrote the tiles, before the barrier behind which others multiply
//   begin_products(…);       results that are added to and left operands in registers have their values
//   multiply(c, a, b, …);    any number
//   end_products();          they are a batch
//   wait_for_products<n>(c); all batches but the last n are done; c, of which those were, may be read or changed
//
// A result is 64 × 64 or 64 × 128: the warp's 16 rows of 64 as mma's accumulators have them, pieces of eight columns.
#pragma once
#include <cstdint>

#include "models/kernels/cuda/mma.cuh"

namespace zrt::models::cuda {

inline constexpr int group_threads = 128, group_rows = 64, tile_align = 1024;

// `next`: bytes from a tile to the one whose columns follow.
__device__ inline uint64_t operand(uint32_t address, uint32_t next) {
  constexpr uint64_t eight_rows = 1024 >> 4, swizzle_128 = uint64_t{1} << 62;
  return (address & 0x3ffff) >> 4 | uint64_t{next >> 4} << 16 | eight_rows << 32 | swizzle_128;
}
// Describes a part of a tile to the instructions: 16 columns at 16 · step of rows from `address` on, a multiple of 8.
__device__ inline uint64_t rows_operand(uint32_t address, int step) {
  return operand(address + static_cast<uint32_t>(32 * step), 16);
}
// Describes 16 rows at 16 · step of all columns, for an operand along whose products the tile's rows lie (`turned`).
// `next` makes the operand go on in a second tile, so that it has 128 columns.
__device__ inline uint64_t turned_operand(uint32_t tile, int step, uint32_t next = 16) {
  return operand(tile + static_cast<uint32_t>(16 * 128 * step), next);
}

__device__ inline void fence_tiles() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// The compiler has made their values when it comes here.
template <int N>
__device__ inline void settle(float (&c)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(c[n][i])::"memory");
  }
}
__device__ inline void settle(uint32_t (&a)[4][4]) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(a[step][i])::"memory");
  }
}

template <class... Operands>
__device__ inline void begin_products(Operands&... operands) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  (settle(operands), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#elif defined(__CUDA_ARCH__)
  __trap();  // other code than that for sm_90a cannot multiply so
#endif
}
__device__ inline void end_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int pending, class... Results>
__device__ inline void wait_for_products(Results&... results) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
  (settle(results), ...);
#endif
}

#define ZRT_FOUR(c, n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define ZRT_SUMS(c) \
  ZRT_FOUR(c, 0), ZRT_FOUR(c, 1), ZRT_FOUR(c, 2), ZRT_FOUR(c, 3), ZRT_FOUR(c, 4), ZRT_FOUR(c, 5), ZRT_FOUR(c, 6), \
      ZRT_FOUR(c, 7)
#define ZRT_PRODUCT(type, add) \
  "{\n.reg .pred p;\nsetp.ne.b32 p, %" add ", 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type \
  " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, " \
  "%25, %26, %27, %28, %29, %30, %31}, "

// c = or += a · b: b as its rows' or, turned, its columns' products. a: rows of a tile, or turned its columns.
template <class E, bool turned, bool a_turned = false>
__device__ inline void multiply(float (&c)[8][4], uint64_t a, uint64_t b, bool add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (std::is_same_v<E, __half>) {
    asm volatile(ZRT_PRODUCT("f16", "34") "%32, %33, p, 1, 1, %35, %36;\n}"
                 : ZRT_SUMS(c)
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(a_turned ? 1 : 0), "n"(turned ? 1 : 0));
  } else {
    asm volatile(ZRT_PRODUCT("bf16", "34") "%32, %33, p, 1, 1, %35, %36;\n}"
                 : ZRT_SUMS(c)
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(a_turned ? 1 : 0), "n"(turned ? 1 : 0));
  }
#endif
}
// Multiplies alike, with `a` in registers, as mma has its left operand; they keep their values until the product is
// done.
template <class E, bool turned>
__device__ inline void multiply(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b, bool add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (std::is_same_v<E, __half>) {
    asm volatile(ZRT_PRODUCT("f16", "37") "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
                 : ZRT_SUMS(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)), "n"(turned ? 1 : 0));
  } else {
    asm volatile(ZRT_PRODUCT("bf16", "37") "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
                 : ZRT_SUMS(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)), "n"(turned ? 1 : 0));
  }
#endif
}
#define ZRT_WIDE_SUMS(c) \
  ZRT_SUMS(c), ZRT_FOUR(c, 8), ZRT_FOUR(c, 9), ZRT_FOUR(c, 10), ZRT_FOUR(c, 11), ZRT_FOUR(c, 12), ZRT_FOUR(c, 13), \
      ZRT_FOUR(c, 14), ZRT_FOUR(c, 15)
#define ZRT_WIDE_PRODUCT(type) \
  "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type \
  " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
  "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
  "{%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}"
// The same with the 128 columns of two tiles.
template <class E, bool turned>
__device__ inline void multiply(float (&c)[16][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  static_assert(turned, "rows of two tiles are two products");
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (std::is_same_v<E, __half>) {
    asm volatile(ZRT_WIDE_PRODUCT("f16")
                 : ZRT_WIDE_SUMS(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)), "n"(1));
  } else {
    asm volatile(ZRT_WIDE_PRODUCT("bf16")
                 : ZRT_WIDE_SUMS(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)), "n"(1));
  }
#endif
}
#undef ZRT_WIDE_PRODUCT
#undef ZRT_WIDE_SUMS
#undef ZRT_PRODUCT
#undef ZRT_SUMS
#undef ZRT_FOUR

}  // namespace zrt::models::cuda

#include <cmath>

#include "core/cuda/launch.cuh"
#include "models/kernels/attention.h"
#include "models/kernels/cuda/attention_row.cuh"

namespace zrt::models::cuda {
namespace {

// A block takes a head; its warps take keys in turn and the first puts their shares together, always in one order.
constexpr int warps = 8, threads = 32 * warps;

// The new key and value are read from qkv by all heads that share them, so that none waits for who adds them to the
// cache.
template <class E>
__global__ void __launch_bounds__(threads) decode_kernel(const AttentionArgs a, E* cache, int position) {
  __shared__ float tops[warps], sums[warps], outs[warps][row_columns];
  const int b = static_cast<int>(blockIdx.x) / a.heads, head = static_cast<int>(blockIdx.x) % a.heads,
            shared_head = head / a.group(), column = static_cast<int>(blockIdx.y) * row_columns,
            warp = static_cast<int>(threadIdx.x) / 32;
  const E* const row = static_cast<const E*>(a.qkv) + b * a.row();
  const E *const q = row + int64_t{head} * a.width, *const new_key = row + a.C() + int64_t{shared_head} * a.width,
                 *const new_value = new_key + a.kv();
  const int64_t cached = (int64_t{b} * a.kv_heads + shared_head) * a.T * a.width;
  E *const keys = cache + cached, *const values = keys + int64_t{a.B} * a.T * a.kv();
  if (column == 0 && head % a.group() == 0) {
    for (int i = static_cast<int>(threadIdx.x); i < a.width; i += threads) {
      keys[int64_t{position} * a.width + i] = new_key[i];
      values[int64_t{position} * a.width + i] = new_value[i];
    }
  }

  const HeadPattern kept = a.pattern_of(head);
  SoftmaxRow state;
  // A window begins in one of the rounds in which the warps take keys; those before have nothing that the query sees.
  const int rounds_before = a.first_key(b, position) / threads;
  for (int begin = rounds_before * threads + 32 * warp; begin < position; begin += threads) {
    const int key = begin + lane_index();
    const bool valid = key < position && sees(a, kept, b, position, key);
    if (__ballot_sync(0xffffffffu, valid) == 0) continue;
    const float s = valid ? score_of(a, row_product(q, keys + int64_t{key} * a.width, a.width)) : -INFINITY;
    const float p = state.step(s);
    add_rows(state.out, p, values + int64_t{begin} * a.width + column, a.width, min(32, position - begin),
             a.width - column);
  }
  if (warp == 0) {
    const float p = state.step(lane_index() == 0 ? score_of(a, row_product(q, new_key, a.width)) : -INFINITY);
    add_rows(state.out, p, new_value + column, 0, 1, a.width - column);
  }
  if (lane_index() == 0) tops[warp] = state.top, sums[warp] = state.sum;
#pragma unroll
  for (int part = 0; part < row_parts; ++part) outs[warp][part * 32 + lane_index()] = state.out[part];
  __syncthreads();
  if (warp != 0) return;
  float top = tops[0];
  for (int i = 1; i < warps; ++i) top = fmaxf(top, tops[i]);
  float sum = 0, out[row_parts] = {};
  for (int i = 0; i < warps; ++i) {
    const float factor = expf(tops[i] - top);  // 0 for a warp without keys
    sum += sums[i] * factor;
#pragma unroll
    for (int part = 0; part < row_parts; ++part) out[part] += outs[i][part * 32 + lane_index()] * factor;
  }
  write_row(out, 1 / sum, static_cast<E*>(a.out) + b * a.C() + int64_t{head} * a.width + column, a.width - column);
}

}  // namespace

uint64_t attention_cache(const AttentionShape& s) {
  return 2 * static_cast<uint64_t>(s.B * s.T * s.kv()) * core::dtype_size(s.type);
}

uint64_t attention_decode_workspace(const AttentionShape&) {
  return 0;
}

void attention_decode(const AttentionShape& s, const void* qkv, void* out, int64_t position, std::byte* cache,
                      std::byte*) {
  AttentionArgs a = attention_args(s, {}, 0);
  a.qkv = qkv, a.out = out;
  const dim3 grid(static_cast<unsigned>(s.B * s.heads),
                  static_cast<unsigned>((s.width + row_columns - 1) / row_columns));
  with_device_type(s.type, [&](auto zero) {
    using E = decltype(zero);
    core::cuda::launch(decode_kernel<E>, grid, threads, 0, a, reinterpret_cast<E*>(cache), static_cast<int>(position));
  });
}

}  // namespace zrt::models::cuda

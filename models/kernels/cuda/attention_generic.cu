#include <cmath>

#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/attention_args.cuh"
#include "models/kernels/cuda/attention_row.cuh"

namespace zrt::models::cuda {
namespace {

// A warp takes a row (a query, or in keys_kernel a key) and 256 columns of its results; wider heads compute the scores
// again for every 256 columns. Slow, but right for whatever the tensor-core kernels leave out.
constexpr int warps = 4, threads = 32 * warps;

// The row of this warp among all of `heads` heads of all samples, or -1: heads · T rows, longest first.
struct Row {
  int b = 0, head = 0, at = -1;
};
__device__ Row own_row(const AttentionArgs& a, int heads, bool descending) {
  const int64_t i = int64_t{blockIdx.x} * warps + threadIdx.x / 32, rows = int64_t{a.B} * heads;
  if (i >= rows * a.T) return {};
  const int at = static_cast<int>(i / rows), head = static_cast<int>(i % rows);
  return {head / heads, head % heads, descending ? a.T - 1 - at : at};
}

template <class E>
__global__ void __launch_bounds__(threads) forward_kernel(const AttentionArgs a) {
  const Row r = own_row(a, a.heads, true);
  if (r.at < 0) return;
  const int64_t row = a.row();
  const E* const qkv = static_cast<const E*>(a.qkv);
  const E *k = qkv + a.keys(r.b, r.head / a.group()), *v = qkv + a.values(r.b, r.head / a.group());
  const int column = static_cast<int>(blockIdx.y) * row_columns;
  const uint64_t element = a.element(r.b, r.head, r.at);
  const int last = a.last_key(r.at);
  const HeadPattern kept = a.pattern_of(r.head);
  SoftmaxRow state;
  for (int begin = a.first_key(r.b, r.at) / 32 * 32; begin <= last; begin += 32) {
    const int key = begin + lane_index();
    const bool valid = sees(a, kept, r.b, r.at, key);
    if (__ballot_sync(0xffffffffu, valid) == 0) continue;
    const float s =
        valid ? score_of(a, row_product(qkv + a.queries(r.b, r.head) + r.at * row, k + key * row, a.width)) : -INFINITY;
    const float p = state.step(s);
    const float factor = a.probability > 0 && valid ? dropout_factor(a, element + static_cast<uint64_t>(key)) : 1;
    add_rows(state.out, p * factor, v + begin * row + column, row, min(32, last + 1 - begin), a.width - column);
  }
  write_row(state.out, 1 / state.sum, static_cast<E*>(a.out) + a.output(r.b, r.head) + r.at * a.C() + column,
            a.width - column);
  if (a.lse != nullptr && column == 0 && lane_index() == 0) {
    a.lse[a.statistics(r.b, r.head) + r.at] = state.top + logf(state.sum);
  }
}

template <class E>
__global__ void __launch_bounds__(threads) queries_kernel(const AttentionArgs a) {
  const Row r = own_row(a, a.heads, true);
  if (r.at < 0) return;
  const int64_t row = a.row();
  const E* const qkv = static_cast<const E*>(a.qkv);
  const E *q = qkv + a.queries(r.b, r.head) + r.at * row, *k = qkv + a.keys(r.b, r.head / a.group()),
          *v = qkv + a.values(r.b, r.head / a.group());
  const int64_t output = a.output(r.b, r.head) + r.at * a.C(), statistics = a.statistics(r.b, r.head) + r.at;
  const E* d_out = static_cast<const E*>(a.d_out) + output;
  const int column = static_cast<int>(blockIdx.y) * row_columns;
  const uint64_t element = a.element(r.b, r.head, r.at);
  float delta = 0;
  for (int i = lane_index(); i < a.width; i += 32) {
    delta += read_element(static_cast<const E*>(a.out)[output + i]) * read_element(d_out[i]);
  }
  for (int other = 16; other > 0; other /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, other);
  if (column == 0 && lane_index() == 0) a.delta[statistics] = delta;

  float dq[row_parts] = {};
  const int last = a.last_key(r.at);
  const HeadPattern kept = a.pattern_of(r.head);
  for (int begin = a.first_key(r.b, r.at) / 32 * 32; begin <= last; begin += 32) {
    const int key = begin + lane_index();
    const bool valid = sees(a, kept, r.b, r.at, key);
    if (__ballot_sync(0xffffffffu, valid) == 0) continue;
    float ds = 0;
    if (valid) {
      const float score = score_of(a, row_product(q, k + key * row, a.width));
      const float p = expf(score - a.lse[statistics]);
      const float factor = a.probability > 0 ? dropout_factor(a, element + static_cast<uint64_t>(key)) : 1;
      ds = p * (row_product(d_out, v + key * row, a.width) * factor - delta) * slope_at(a, score);
    }
    add_rows(dq, ds, k + begin * row + column, row, min(32, last + 1 - begin), a.width - column);
  }
  write_row(dq, a.scale, static_cast<E*>(a.d_qkv) + a.queries(r.b, r.head) + r.at * row + column, a.width - column);
}

template <class E>
__global__ void __launch_bounds__(threads) keys_kernel(const AttentionArgs a) {
  const Row r = own_row(a, a.kv_heads, false);
  if (r.at < 0) return;
  const int64_t row = a.row(), C = a.C();
  const E* const qkv = static_cast<const E*>(a.qkv);
  const int64_t key_at = a.keys(r.b, r.head) + r.at * row, value_at = a.values(r.b, r.head) + r.at * row;
  const int column = static_cast<int>(blockIdx.y) * row_columns;
  float dk[row_parts] = {}, dv[row_parts] = {};
  for (int head = r.head * a.group(); head < (r.head + 1) * a.group(); ++head) {
    const E *q = qkv + a.queries(r.b, head), *d_out = static_cast<const E*>(a.d_out) + a.output(r.b, head);
    const int64_t statistics = a.statistics(r.b, head);
    const HeadPattern kept = a.pattern_of(head);
    const int end = a.pattern.window > 0 ? min(a.T, r.at + a.pattern.window) : a.T;  // of those that see the key
    for (int begin = a.pattern.causal ? r.at : 0; begin < end; begin += 32) {
      if (a.positions != nullptr && a.document_start(r.b, begin) > r.at) break;  // nor do later queries see the key
      const int query = begin + lane_index();
      const bool valid = query < a.T && sees(a, kept, r.b, query, r.at);
      if (__ballot_sync(0xffffffffu, valid) == 0) continue;
      float p = 0, ds = 0;
      if (valid) {
        const float score = score_of(a, row_product(q + query * row, qkv + key_at, a.width));
        p = expf(score - a.lse[statistics + query]);
        const float factor =
            a.probability > 0 ? dropout_factor(a, a.element(r.b, head, query) + static_cast<uint64_t>(r.at)) : 1;
        ds = p * (row_product(d_out + query * C, qkv + value_at, a.width) * factor - a.delta[statistics + query]) *
             slope_at(a, score);
        p *= factor;
      }
      const int count = min(32, a.T - begin);
      add_rows(dk, ds, q + begin * row + column, row, count, a.width - column);
      add_rows(dv, p, d_out + begin * C + column, C, count, a.width - column);
    }
  }
  write_row(dk, a.scale, static_cast<E*>(a.d_qkv) + key_at + column, a.width - column);
  write_row(dv, 1, static_cast<E*>(a.d_qkv) + value_at + column, a.width - column);
}

dim3 row_grid(const AttentionArgs& a, int heads) {
  const int64_t rows = int64_t{a.B} * heads * a.T;
  return {static_cast<unsigned>((rows + warps - 1) / warps),
          static_cast<unsigned>((a.width + row_columns - 1) / row_columns)};
}

}  // namespace

void generic_attention_forward(DType type, const AttentionArgs& a) {
  with_device_type(type, [&](auto zero) {
    core::cuda::launch(forward_kernel<decltype(zero)>, row_grid(a, a.heads), threads, 0, a);
  });
}

void generic_attention_backward(DType type, const AttentionArgs& a) {
  with_device_type(type, [&](auto zero) {
    core::cuda::launch(queries_kernel<decltype(zero)>, row_grid(a, a.heads), threads, 0, a);
    core::cuda::launch(keys_kernel<decltype(zero)>, row_grid(a, a.kv_heads), threads, 0, a);
  });
}

}  // namespace zrt::models::cuda

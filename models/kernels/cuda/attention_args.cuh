// The arguments of the attention kernels, and the choice of those that a shape takes.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core/philox.h"
#include "models/kernels/attention.h"
#include "models/kernels/cuda/attention_order.h"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/mma.cuh"

namespace zrt::models::cuda {

inline constexpr float log2_e = 1.4426950408889634f;

struct AttentionArgs {
  const void* qkv = nullptr;
  void* out = nullptr;  // read in backward
  const void* d_out = nullptr;
  void* d_qkv = nullptr;
  float* lse = nullptr;    // (B, heads, T), written in forward if not null
  float* delta = nullptr;  // (B, heads, T): row sums of out · d_out
  int B = 0, T = 0, heads = 0, kv_heads = 0, width = 0;
  float scale = 0, cap = 0;
  core::RngKey key;
  float probability = 0, kept = 1;  // kept elements are scaled by `kept`
  uint64_t first_sample = 0, all_heads = 0, first_head = 0;
  AttentionPattern pattern;
  const int32_t* positions = nullptr;  // (B, T); null: a sample is one document
  TileOrder order;

  ZRT_HD int group() const { return heads / kv_heads; }
  __device__ HeadPattern pattern_of(int head) const {
    return pattern.of(static_cast<int64_t>(first_head) + head, pattern.blocks(T));
  }
  // The first and the last key that a query may see, whatever else a pattern leaves out.
  __device__ int first_key(int b, int query) const {
    const int first = pattern.first_key(query);
    return positions == nullptr ? first : max(first, document_start(b, query));
  }
  // Queries behind the end have that of the last one. It never falls from one query to the next.
  __device__ int document_start(int b, int query) const {
    const int at = min(query, T - 1);
    return at - positions[int64_t{b} * T + at];
  }
  ZRT_HD int last_key(int query) const { return pattern.causal ? query : T - 1; }
  ZRT_HD int64_t C() const { return int64_t{heads} * width; }
  ZRT_HD int64_t kv() const { return int64_t{kv_heads} * width; }
  ZRT_HD int64_t row() const { return C() + 2 * kv(); }
  // Elements from the start of qkv or d_qkv.
  ZRT_HD int64_t queries(int b, int head) const { return int64_t{b} * T * row() + int64_t{head} * width; }
  ZRT_HD int64_t keys(int b, int shared) const { return int64_t{b} * T * row() + C() + int64_t{shared} * width; }
  ZRT_HD int64_t values(int b, int shared) const { return keys(b, shared) + kv(); }
  // Elements from the start of out and d_out, then of lse and delta.
  ZRT_HD int64_t output(int b, int head) const { return int64_t{b} * T * C() + int64_t{head} * width; }
  ZRT_HD int64_t statistics(int b, int head) const { return (int64_t{b} * heads + head) * T; }
  // Dropout index of key 0.
  ZRT_HD uint64_t element(int b, int head, int query) const {
    const uint64_t sample = first_sample + static_cast<uint64_t>(b);
    return ((sample * all_heads + first_head + static_cast<uint64_t>(head)) * static_cast<uint64_t>(T) +
            static_cast<uint64_t>(query)) *
           static_cast<uint64_t>(T);
  }
};

inline AttentionArgs attention_args(const AttentionShape& s, const Dropout& dropout, uint64_t first_sample) {
  AttentionArgs a;
  a.B = static_cast<int>(s.B), a.T = static_cast<int>(s.T), a.width = static_cast<int>(s.width);
  a.heads = static_cast<int>(s.heads), a.kv_heads = static_cast<int>(s.kv_heads), a.scale = s.scale();
  a.key = dropout.key, a.probability = s.dropout, a.kept = 1.0f / (1.0f - s.dropout), a.first_sample = first_sample;
  a.all_heads = static_cast<uint64_t>(s.all_heads == 0 ? s.heads : s.all_heads);
  a.first_head = static_cast<uint64_t>(s.first_head), a.pattern = s.pattern, a.cap = s.cap;
  a.positions = s.documents ? s.positions : nullptr;
  return a;
}

// The width to which tensor-core kernels pad a head, or 0 where only the generic kernels fit. Tiles are copied 16 bytes
// at a time: beside aligned16() pointers, widths that are a multiple of 8 keep rows and heads aligned. To keep the
// number of kernels small, fp16, dropout and sparse patterns have two widths, and fp16 with dropout none. Blocks of a
// pattern must be whole units of 16 positions. Scores with a cap are the generic kernels' alone. Samples of several
// documents take the kernels of sparse patterns.
inline int padded_width(const AttentionShape& s) {
  if (s.type == DType::f32 || s.width % 8 != 0 || s.width > 128 || s.cap > 0) return 0;
  const bool sparse = s.pattern.sparse() || s.documents;
  if (sparse && (s.pattern.block % 16 != 0 || s.T > 16 * 32768)) return 0;
  const bool half = s.type == DType::f16, drops = s.dropout > 0;
  if (half && drops) return 0;
  if (s.width <= 64) return 64;
  if (half || drops || sparse) return 128;
  return s.width <= 80 ? 80 : s.width <= 96 ? 96 : 128;
}

// Calls body<element type, padded width, drops, sparse>() for what padded_width() allows.
template <class Body>
void with_attention_kernel(const AttentionShape& s, int width, const Body& body) {
  using B = __nv_bfloat16;
  const auto narrow_or_wide = [&]<class E, bool drops, bool sparse>() {
    width == 64 ? body.template operator()<E, 64, drops, sparse>() : body.template operator()<E, 128, drops, sparse>();
  };
  const auto dense_or_sparse = [&]<class E, bool drops>() {
    s.pattern.sparse() || s.documents ? narrow_or_wide.template operator()<E, drops, true>()
                                      : narrow_or_wide.template operator()<E, drops, false>();
  };
  if (s.type == DType::f16) return dense_or_sparse.template operator()<__half, false>();
  if (s.dropout > 0) return dense_or_sparse.template operator()<B, true>();
  if (width == 80) return body.template operator()<B, 80, false, false>();
  if (width == 96) return body.template operator()<B, 96, false, false>();
  dense_or_sparse.template operator()<B, false>();
}

// attention_generic.cu: any type, width and alignment, in fp32 arithmetic.
void generic_attention_forward(DType type, const AttentionArgs& a);
void generic_attention_backward(DType type, const AttentionArgs& a);

template <class E>
__device__ inline float read_element(E x) {
  if constexpr (sizeof(E) == 4)
    return x;
  else if constexpr (std::is_same_v<E, __half>)
    return __half2float(x);
  else
    return __bfloat162float(x);
}
template <class E>
__device__ inline E write_element(float x) {
  if constexpr (sizeof(E) == 4)
    return x;
  else if constexpr (std::is_same_v<E, __half>)
    return __float2half_rn(x);
  else
    return __float2bfloat16_rn(x);
}

// Factor of a probability: 0 or `kept`.
__device__ inline float dropout_factor(const AttentionArgs& a, uint64_t element) {
  const auto words = core::philox(a.key, element >> 2);
  const uint32_t low = element & 1 ? words[1] : words[0], high = element & 1 ? words[3] : words[2];
  return core::uniform(element & 2 ? high : low) >= a.probability ? a.kept : 0.0f;
}

// True where a query sees a key, both before T; `kept` is its head's pattern.
__device__ inline bool sees(const AttentionArgs& a, const HeadPattern& kept, int b, int query, int key) {
  if (key > a.last_key(query) || key < a.first_key(b, query)) return false;
  return !a.pattern.sparse() || kept.keeps(query / a.pattern.block, key / a.pattern.block);
}

// A score, of a product of a query and a key, and its slope.
__device__ inline float score_of(const AttentionArgs& a, float product) {
  const float score = product * a.scale;
  return a.cap == 0 ? score : a.cap * tanhf(score / a.cap);
}
__device__ inline float slope_at(const AttentionArgs& a, float score) {
  if (a.cap == 0) return 1;
  const float t = score / a.cap;
  return 1 - t * t;
}

// Calls body(element of the type).
template <class Body>
void with_device_type(DType type, const Body& body) {
  if (type == DType::f32)
    body(float{});
  else if (type == DType::bf16)
    body(__nv_bfloat16{});
  else
    body(__half{});
}

}  // namespace zrt::models::cuda

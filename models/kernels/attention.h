// Self-attention that never stores the (T, T) matrix: for every sample, head and tile of queries only a strip of
// scores lives in the workspace. A pattern says which keys a query attends to; what it leaves out is neither computed
// nor stored. Backward computes the strips again from the saved log-sum-exp (the idea of Dao et
// al., "FlashAttention", 2022, with whole rows instead of an online softmax). Several heads of queries may share one of
// keys and values (Ainslie et al., "GQA", 2023).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/dtype.h"
#include "models/kernels/attention_pattern.h"
#include "models/kernels/kernels.h"

namespace zrt::models {

struct AttentionShape {
  int64_t B = 1, T = 1, heads = 1, kv_heads = 1, width = 1;  // kv_heads divides heads; width of a head
  DType type = DType::f32;
  float dropout = 0;  // of the probabilities
  // Ranks may share heads: these are heads first_head … first_head + heads - 1 of all_heads (0: of `heads`). Dropout
  // and pattern count the heads so, and are the same for a head wherever it is.
  int64_t all_heads = 0, first_head = 0;
  AttentionPattern pattern = {};
  double scale_width = 0;  // scores are divided by its root; 0: by that of `width`
  float cap = 0;           // scores become cap · tanh(score / cap); 0: they stay
  // Samples hold documents, one behind the other, whose tokens attend to their own document alone; only where the
  // pattern is causal. positions (B, T): each token's place in its document, which the calls below read.
  bool documents = false;
  const int32_t* positions = nullptr;
  int64_t C() const { return heads * width; }
  int64_t group() const { return heads / kv_heads; }  // heads of queries to one of keys and values
  int64_t kv() const { return kv_heads * width; }
  int64_t row() const { return C() + 2 * kv(); }               // of qkv: the heads' queries, then keys, then values
  uint64_t dropout_row(uint64_t sample, int64_t head) const {  // of query 0
    const auto all = static_cast<uint64_t>(all_heads == 0 ? heads : all_heads);
    return (sample * all + static_cast<uint64_t>(first_head + head)) * static_cast<uint64_t>(T);
  }
  // The first key that a query sees, whatever else a pattern leaves out.
  int64_t first_key(int64_t sample, int64_t query) const {
    const int64_t first = pattern.first_key(static_cast<int>(query));
    return documents ? std::max(first, query - positions[sample * T + query]) : first;
  }
  float scale() const {  // of scores
    return scale_width == 0 ? 1.0f / std::sqrt(static_cast<float>(width))
                            : static_cast<float>(1 / std::sqrt(scale_width));
  }
};

// Both depend on core::threads() on the CPU: every thread works on a head of its own, in backward on those that share
// keys.
ZRT_KERNEL(attention_forward_workspace, uint64_t(const AttentionShape& shape));
ZRT_KERNEL(attention_backward_workspace, uint64_t(const AttentionShape& shape));

// qkv (B, T, row()), out (B, T, C), lse (B, heads, T) or null. Dropout index: ((sample · all_heads + first_head + head)
// · T + q) · T + k.
ZRT_KERNEL(attention_forward, void(const AttentionShape& shape, const void* qkv, void* out, float* lse,
                                   const Dropout& dropout, uint64_t first_sample, std::byte* workspace));

// `out` and `lse` as forward wrote them.
ZRT_KERNEL(attention_backward,
           void(const AttentionShape& shape, const void* qkv, const void* out, const float* lse, const void* d_out,
                void* d_qkv, const Dropout& dropout, uint64_t first_sample, std::byte* workspace));

// One new token per sequence at `position`, which attends to what the pattern keeps of those before; its key and value
// are added to the cache, which holds keys (B, kv_heads, T, width), then values alike. qkv (B, row()), out (B, C).
// shape.T is the length of the cache.
ZRT_KERNEL(attention_cache, uint64_t(const AttentionShape& shape));
ZRT_KERNEL(attention_decode_workspace, uint64_t(const AttentionShape& shape));
ZRT_KERNEL(attention_decode, void(const AttentionShape& shape, const void* qkv, void* out, int64_t position,
                                  std::byte* cache, std::byte* workspace));

}  // namespace zrt::models

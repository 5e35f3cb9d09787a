// Causal self-attention that never stores the (T, T) matrix: for every sample, head and tile of queries only a strip of
// scores lives in the workspace. Backward computes the strips again from the saved log-sum-exp (the idea of Dao et
// al., "FlashAttention", 2022, with whole rows instead of an online softmax).
#pragma once
#include <cstdint>

#include "core/dtype.h"
#include "models/kernels/kernels.h"

namespace zrt::models {

struct AttentionShape {
  int64_t B = 1, T = 1, heads = 1, width = 1;  // width of a head; C = heads · width
  DType type = DType::f32;
  float dropout = 0;  // of the probabilities
  int64_t C() const { return heads * width; }
};

// Both depend on core::threads(): every thread works on a head of its own.
uint64_t attention_forward_workspace(const AttentionShape& shape);
uint64_t attention_backward_workspace(const AttentionShape& shape);

// qkv (B, T, 3C), out (B, T, C), lse (B, heads, T) or null. Dropout index: ((sample · heads + head) · T + q) · T + k.
void attention_forward(const AttentionShape& shape, const void* qkv, void* out, float* lse, const Dropout& dropout,
                       uint64_t first_sample, std::byte* workspace);

void attention_backward(const AttentionShape& shape, const void* qkv, const float* lse, const void* d_out, void* d_qkv,
                        const Dropout& dropout, uint64_t first_sample, std::byte* workspace);

// One new token per sequence at `position`; its key and value are added to the cache, which holds keys (B, heads, T,
// width), then values alike. qkv (B, 3C), out (B, C). shape.T is the length of the cache.
uint64_t attention_cache(const AttentionShape& shape);
uint64_t attention_decode_workspace(const AttentionShape& shape);
void attention_decode(const AttentionShape& shape, const void* qkv, void* out, int64_t position, std::byte* cache,
                      std::byte* workspace);

}  // namespace zrt::models

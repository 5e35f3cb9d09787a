#include <algorithm>

#include "core/parallel.h"
#include "models/kernels/attention.h"
#include "models/kernels/backend.h"
#include "models/kernels/cpu/dispatch.h"

namespace zrt::models::cpu {
namespace {

// Heads that share keys are worked on by one thread, which adds to their cache.
int64_t decode_slots(const AttentionShape& s) {
  return std::min<int64_t>(core::threads(), s.B * s.kv_heads);
}

}  // namespace

uint64_t attention_cache(const AttentionShape& s) {
  return 2 * static_cast<uint64_t>(s.B * s.T * s.kv()) * core::dtype_size(s.type);
}

uint64_t attention_decode_workspace(const AttentionShape& s) {
  return static_cast<uint64_t>(decode_slots(s) * s.T) * 4;
}

void attention_decode(const AttentionShape& s, const void* qkv, void* out, int64_t position, std::byte* cache,
                      std::byte* workspace) {
  const int64_t W = s.width, C = s.C(), count = decode_slots(s);
  with_type(s.type, [&](auto zero) {
    using E = decltype(zero);
    E* keys = reinterpret_cast<E*>(cache);
    E* values = keys + s.B * s.T * s.kv();
    core::parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        float* scores = reinterpret_cast<float*>(workspace) + slot * s.T;
        for (int64_t i = slot; i < s.B * s.kv_heads; i += count) {
          const int64_t b = i / s.kv_heads, shared = i % s.kv_heads;
          const E* row = static_cast<const E*>(qkv) + b * s.row();
          const E *k = row + C + shared * W, *v = k + s.kv();
          E *head_keys = keys + i * s.T * W, *head_values = values + i * s.T * W;
          std::copy(k, k + W, head_keys + position * W);
          std::copy(v, v + W, head_values + position * W);
          for (int64_t h = shared * s.group(); h < (shared + 1) * s.group(); ++h) {
            typed_kernels<E>().attend(row + h * W, head_keys, head_values, position + 1, W, s.scale(), scores,
                                      static_cast<E*>(out) + b * C + h * W);
          }
        }
      }
    });
  });
}

}  // namespace zrt::models::cpu

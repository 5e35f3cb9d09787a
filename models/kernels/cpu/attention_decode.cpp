#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "models/bump_allocator.h"
#include "models/kernels/attention.h"
#include "models/kernels/cpu/dispatch.h"

namespace zrt::models::cpu {
namespace {

// Heads that share keys are worked on by one thread, which adds to their cache.
int64_t decode_slots(const AttentionShape& s) {
  return std::min<int64_t>(core::threads(), s.B * s.kv_heads);
}

// One thread's buffers. The copies are of the keys and values that a pattern keeps.
struct DecodeSpace {
  float* scores;
  void *keys, *values;
};

DecodeSpace lay_out_decode(BumpAllocator& layout, const AttentionShape& s) {
  const bool gathers = s.pattern.sparse() && s.pattern.window == 0;  // a window lies in one run
  const uint64_t gathered = gathers ? static_cast<uint64_t>(s.T * s.width) * core::dtype_size(s.type) : 0;
  DecodeSpace space{};
  space.scores = layout.take<float>(static_cast<uint64_t>(s.pattern.most_keys(s.T)) * 4);
  space.keys = layout.take(gathered), space.values = layout.take(gathered);
  return space;
}

// Copies the rows of a cache that the newest position of a head attends to; returns how many these are.
template <class E>
int64_t gather_kept(const AttentionShape& s, int64_t head, int64_t position, const E* keys, const E* values,
                    const DecodeSpace& space) {
  const AttentionPattern& pattern = s.pattern;
  const HeadPattern kept = pattern.of(s.first_head + head, pattern.blocks(s.T));
  const int query = static_cast<int>(position / pattern.block);
  int64_t count = 0;
  for (int block = 0; block <= query; ++block) {
    if (!kept.keeps(query, block)) continue;
    const int64_t begin = int64_t{block} * pattern.block, rows = std::min<int64_t>(pattern.block, position + 1 - begin);
    std::copy_n(keys + begin * s.width, rows * s.width, static_cast<E*>(space.keys) + count * s.width);
    std::copy_n(values + begin * s.width, rows * s.width, static_cast<E*>(space.values) + count * s.width);
    count += rows;
  }
  return count;
}

}  // namespace

uint64_t attention_cache(const AttentionShape& s) {
  return 2 * static_cast<uint64_t>(s.B * s.T * s.kv()) * core::dtype_size(s.type);
}

uint64_t attention_decode_workspace(const AttentionShape& s) {
  BumpAllocator layout;
  for (int64_t slot = 0; slot < decode_slots(s); ++slot) lay_out_decode(layout, s);
  return layout.bytes();
}

void attention_decode(const AttentionShape& s, const void* qkv, void* out, int64_t position, std::byte* cache,
                      std::byte* workspace) {
  const int64_t W = s.width, C = s.C(), count = decode_slots(s);
  BumpAllocator layout(workspace);
  std::vector<DecodeSpace> spaces;
  for (int64_t slot = 0; slot < count; ++slot) spaces.push_back(lay_out_decode(layout, s));
  with_type(s.type, [&](auto zero) {
    using E = decltype(zero);
    E* keys = reinterpret_cast<E*>(cache);
    E* values = keys + s.B * s.T * s.kv();
    core::parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        const DecodeSpace& space = spaces[static_cast<size_t>(slot)];
        for (int64_t i = slot; i < s.B * s.kv_heads; i += count) {
          const int64_t b = i / s.kv_heads, shared = i % s.kv_heads;
          const E* row = static_cast<const E*>(qkv) + b * s.row();
          const E *k = row + C + shared * W, *v = k + s.kv();
          E *head_keys = keys + i * s.T * W, *head_values = values + i * s.T * W;
          std::copy(k, k + W, head_keys + position * W);
          std::copy(v, v + W, head_values + position * W);
          for (int64_t h = shared * s.group(); h < (shared + 1) * s.group(); ++h) {
            E* to = static_cast<E*>(out) + b * C + h * W;
            const bool gathers = s.pattern.sparse() && s.pattern.window == 0;
            const int64_t first = s.pattern.first_key(static_cast<int>(position));
            const int64_t n =
                gathers ? gather_kept(s, h, position, head_keys, head_values, space) : position + 1 - first;
            typed_kernels<E>().attend(row + h * W, gathers ? static_cast<const E*>(space.keys) : head_keys + first * W,
                                      gathers ? static_cast<const E*>(space.values) : head_values + first * W, n, W,
                                      s.scale(), s.cap, space.scores, to);
          }
        }
      }
    });
  });
}

}  // namespace zrt::models::cpu

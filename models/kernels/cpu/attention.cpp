#include "models/kernels/attention.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "models/bump_allocator.h"
#include "models/kernels/cpu/attention_plan.h"
#include "models/kernels/cpu/dispatch.h"

namespace zrt::models::cpu {
namespace {

int64_t slots(const AttentionShape& s, int64_t heads) {
  return std::min<int64_t>(core::threads(), s.B * heads);
}

// Heads that are worked on independently: in backward those that share keys go together.
int64_t independent_heads(const AttentionShape& s, bool backward) {
  return backward ? s.kv_heads : s.heads;
}

// Workspace of one thread.
struct Strips {
  std::byte* scratch;
  float *mask, *scores, *d_scores;
  void *p, *ds;                    // in the compute type; for fp32 they are scores and d_scores themselves
  void *keys, *values;             // of a tile, one behind the other, where they do not lie so
  float *tile_keys, *tile_values;  // the gradients of these
  float *d_keys, *d_values;        // (T, width)
  float* tanh;                     // of a row of scores that are capped
};

Strips lay_out_strips(BumpAllocator& layout, const AttentionShape& s, const AttentionPlans& plans, bool backward) {
  uint64_t scratch = 0, strip = 0, gathered = 0;
  for (const AttentionPlan& plan : plans) {
    scratch = std::max(scratch, plan.scratch), strip = std::max(strip, plan.strip);
    gathered = std::max(gathered, plan.gathered);
  }
  Strips strips{};
  const bool half = s.type != DType::f32;
  const uint64_t element = core::dtype_size(s.type), narrow = half ? strip * element : 0;
  strips.scratch = layout.take<std::byte>(scratch);
  strips.mask = layout.take<float>(s.dropout > 0 ? static_cast<uint64_t>(s.T) * 4 : 0);
  strips.scores = layout.take<float>(strip * 4);
  strips.p = half ? layout.take(narrow) : strips.scores;
  strips.keys = layout.take(gathered * element), strips.values = layout.take(gathered * element);
  if (backward) {
    strips.d_scores = layout.take<float>(strip * 4);
    strips.ds = half ? layout.take(narrow) : strips.d_scores;
    strips.tile_keys = layout.take<float>(gathered * 4), strips.tile_values = layout.take<float>(gathered * 4);
    strips.d_keys = layout.take<float>(static_cast<uint64_t>(s.T * s.width) * 4);
    strips.d_values = layout.take<float>(static_cast<uint64_t>(s.T * s.width) * 4);
    strips.tanh = layout.take<float>(s.cap > 0 ? static_cast<uint64_t>(s.pattern.most_keys(s.T)) * 4 : 0);
  }
  return strips;
}

uint64_t workspace_bytes(const AttentionShape& s, bool backward) {
  const auto plans = attention_plans(s, backward);
  BumpAllocator layout;
  const int64_t count = slots(s, independent_heads(s, backward));
  for (int64_t slot = 0; slot < count; ++slot) lay_out_strips(layout, s, *plans, backward);
  return layout.bytes();
}

// Calls body(sample, head, strips) for every head, in backward for every head of keys and values.
template <class Body>
void for_each_head(const AttentionShape& s, const AttentionPlans& plans, bool backward, std::byte* workspace,
                   const Body& body) {
  const int64_t heads = independent_heads(s, backward), count = slots(s, heads);
  std::vector<Strips> strips;
  BumpAllocator layout(workspace);
  for (int64_t slot = 0; slot < count; ++slot) strips.push_back(lay_out_strips(layout, s, plans, backward));
  core::parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      for (int64_t i = slot; i < s.B * heads; i += count) {
        body(i / heads, i % heads, strips[static_cast<size_t>(slot)]);
      }
    }
  });
}

class Tiles {
 public:
  Tiles(const AttentionPlans& plans, const AttentionShape& s) : plans_(plans), first_head_(s.first_head) {
    for (int64_t sample = 0; sample < s.B; ++sample) of_sample_.push_back(document_tiles(plans[0], s, sample));
  }
  const std::vector<AttentionTile>& of(int64_t sample, int64_t head) const {
    const std::vector<AttentionTile>& own = of_sample_[static_cast<size_t>(sample)];
    return own.empty() ? plans_[static_cast<size_t>(first_head_ + head) % plans_.size()].tiles : own;
  }

 private:
  const AttentionPlans& plans_;
  int64_t first_head_;
  std::vector<std::vector<AttentionTile>> of_sample_;
};

// The mask of a row of probabilities, of the keys that it sees, or null.
const float* row_mask(const AttentionShape& s, const AttentionTile& tile, const Dropout& dropout, uint64_t sample,
                      int64_t head, int64_t query, float* mask) {
  if (s.dropout == 0) return nullptr;
  const uint64_t row = (s.dropout_row(sample, head) + static_cast<uint64_t>(query)) * static_cast<uint64_t>(s.T);
  int64_t left = tile.seen(query, s.pattern.causal);
  float* to = mask;
  for (const AttentionTile::Run& run : tile.runs) {
    const int64_t count = std::min(run.count, left);
    if (count == 0) break;
    vector_kernels().dropout_mask(dropout_key(dropout), row + static_cast<uint64_t>(run.begin), to, count);
    to += count, left -= count;
  }
  return mask;
}

// Row i of a tile's scores: from the first key that its query sees, with zeros in front of it.
struct ScoreRow {
  int64_t at, valid, count;  // its first key in the strip; keys that it sees; up to the row's end
  const float* mask;
};
template <class E>
ScoreRow score_row(const AttentionShape& s, const AttentionTile& tile, int64_t sample, int64_t i, E* p,
                   const float* mask) {
  const int64_t query = tile.begin + i, passed = tile.before(s.first_key(sample, query));
  std::fill_n(p + i * tile.keys, passed, E{});
  return {i * tile.keys + passed, tile.seen(query, s.pattern.causal) - passed, tile.keys - passed,
          mask == nullptr ? nullptr : mask + passed};
}

// Rows of the tile's keys or values: where they lie, or, where that is not one behind the other, copies of them.
template <class E>
const E* rows_of(const AttentionTile& tile, const E* from, int64_t row, int64_t width, void* gathered) {
  if (!tile.gathers()) return from + tile.runs.front().begin * row;
  E* to = static_cast<E*>(gathered);
  for (const AttentionTile::Run& run : tile.runs) {
    for (int64_t i = 0; i < run.count; ++i, to += width) {
      std::copy_n(from + (run.begin + i) * row, width, to);
    }
  }
  return static_cast<const E*>(gathered);
}

// Adds the gradients of gathered rows to those of all.
void scatter(const AttentionTile& tile, const float* from, int64_t width, float* to) {
  for (const AttentionTile::Run& run : tile.runs) {
    float* row = to + run.begin * width;
    for (int64_t i = 0; i < run.count * width; ++i) row[i] += *from++;
  }
}

}  // namespace

uint64_t attention_forward_workspace(const AttentionShape& shape) {
  return workspace_bytes(shape, false);
}

uint64_t attention_backward_workspace(const AttentionShape& shape) {
  return workspace_bytes(shape, true);
}

void attention_forward(const AttentionShape& s, const void* qkv, void* out, float* lse, const Dropout& dropout,
                       uint64_t first_sample, std::byte* workspace) {
  const auto plans = attention_plans(s, false);
  const Tiles tiles(*plans, s);
  const int64_t C = s.C(), T = s.T, row = s.row();
  with_type(s.type, [&](auto zero) {
    using E = decltype(zero);
    for_each_head(s, *plans, false, workspace, [&](int64_t b, int64_t h, const Strips& strips) {
      const E* sample = static_cast<const E*>(qkv) + b * T * row;
      const E *q = sample + h * s.width, *k = sample + C + h / s.group() * s.width, *v = k + s.kv();
      E* to = static_cast<E*>(out) + b * T * C + h * s.width;
      E* p = static_cast<E*>(strips.p);
      for (const AttentionTile& tile : tiles.of(b, h)) {
        tile.scores->run(q + tile.begin * row, rows_of(tile, k, row, s.width, strips.keys), strips.scores, nullptr,
                         strips.scratch);
        for (int64_t i = 0; i < tile.rows; ++i) {
          const int64_t query = tile.begin + i;
          const float* mask =
              row_mask(s, tile, dropout, first_sample + static_cast<uint64_t>(b), h, query, strips.mask);
          const ScoreRow r = score_row(s, tile, b, i, p, mask);
          float* const scores = strips.scores + r.at;
          const float sum =
              s.cap > 0
                  ? typed_kernels<E>().capped_softmax(scores, p + r.at, r.valid, r.count, s.scale(), s.cap, r.mask)
                  : typed_kernels<E>().softmax(scores, p + r.at, r.valid, r.count, s.scale(), r.mask);
          if (lse != nullptr) lse[(b * s.heads + h) * T + query] = sum;
        }
        tile.context->run(p, rows_of(tile, v, row, s.width, strips.values), to + tile.begin * C, nullptr,
                          strips.scratch);
      }
    });
  });
}

void attention_backward(const AttentionShape& s, const void* qkv, const void*, const float* lse, const void* d_out,
                        void* d_qkv, const Dropout& dropout, uint64_t first_sample, std::byte* workspace) {
  const auto plans = attention_plans(s, true);
  const Tiles tiles(*plans, s);
  const int64_t C = s.C(), T = s.T, W = s.width, row = s.row();
  with_type(s.type, [&](auto zero) {
    using E = decltype(zero);
    for_each_head(s, *plans, true, workspace, [&](int64_t b, int64_t shared, const Strips& strips) {
      const int64_t k_at = b * T * row + C + shared * W, v_at = k_at + s.kv();
      const E *k = static_cast<const E*>(qkv) + k_at, *v = static_cast<const E*>(qkv) + v_at;
      E *p = static_cast<E*>(strips.p), *ds = static_cast<E*>(strips.ds);
      if (s.pattern.sparse() || s.documents) {
        std::fill_n(strips.d_keys, T * W, 0.0f);
        std::fill_n(strips.d_values, T * W, 0.0f);
      }
      for (int64_t h = shared * s.group(); h < (shared + 1) * s.group(); ++h) {
        const E* q = static_cast<const E*>(qkv) + b * T * row + h * W;
        const E* d_o = static_cast<const E*>(d_out) + b * T * C + h * W;
        E* dq = static_cast<E*>(d_qkv) + b * T * row + h * W;
        const std::vector<AttentionTile>& of_head = tiles.of(b, h);
        for (auto it = of_head.rbegin(); it != of_head.rend(); ++it) {
          const AttentionTile& tile = *it;
          const E *keys = rows_of(tile, k, row, W, strips.keys), *values = rows_of(tile, v, row, W, strips.values);
          tile.scores->run(q + tile.begin * row, keys, strips.scores, nullptr, strips.scratch);
          tile.d_probabilities->run(d_o + tile.begin * C, values, strips.d_scores, nullptr, strips.scratch);
          for (int64_t i = 0; i < tile.rows; ++i) {
            const int64_t query = tile.begin + i;
            const float* mask =
                row_mask(s, tile, dropout, first_sample + static_cast<uint64_t>(b), h, query, strips.mask);
            const ScoreRow r = score_row(s, tile, b, i, p, mask);
            std::fill_n(ds + i * tile.keys, r.at - i * tile.keys, E{});
            float *const scores = strips.scores + r.at, *const d_scores = strips.d_scores + r.at;
            const float sum = lse[(b * s.heads + h) * T + query];
            if (s.cap > 0) {
              typed_kernels<E>().capped_softmax_backward(scores, d_scores, p + r.at, ds + r.at, r.valid, r.count,
                                                         s.scale(), s.cap, sum, r.mask, strips.tanh);
            } else {
              typed_kernels<E>().softmax_backward(scores, d_scores, p + r.at, ds + r.at, r.valid, r.count, s.scale(),
                                                  sum, r.mask);
            }
          }
          const bool first = tile.first_keys != nullptr && h == shared * s.group();
          const Gemm &d_values = *(first ? tile.first_values : tile.d_values),
                     &d_keys = *(first ? tile.first_keys : tile.d_keys);
          const int64_t begin = tile.runs.front().begin * W;
          float* to_keys = tile.gathers() ? strips.tile_keys : strips.d_keys + begin;
          float* to_values = tile.gathers() ? strips.tile_values : strips.d_values + begin;
          d_values.run(p, d_o + tile.begin * C, to_values, nullptr, strips.scratch);
          d_keys.run(ds, q + tile.begin * row, to_keys, nullptr, strips.scratch);
          tile.d_queries->run(ds, keys, dq + tile.begin * row, nullptr, strips.scratch);
          if (!tile.gathers()) continue;
          scatter(tile, to_values, W, strips.d_values);
          scatter(tile, to_keys, W, strips.d_keys);
        }
      }
      E *dk = static_cast<E*>(d_qkv) + k_at, *dv = static_cast<E*>(d_qkv) + v_at;
      for (int64_t t = 0; t < T; ++t) {
        typed_kernels<E>().write(strips.d_keys + t * W, dk + t * row, false, W);
        typed_kernels<E>().write(strips.d_values + t * W, dv + t * row, false, W);
      }
    });
  });
}

}  // namespace zrt::models::cpu

#include "models/kernels/attention.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "models/bump_allocator.h"
#include "models/kernels/backend.h"
#include "models/kernels/cpu/dispatch.h"
#include "models/kernels/gemm.h"

namespace zrt::models::cpu {
namespace {

constexpr int64_t query_tile = 96;

// The queries from `begin` on attend to keys 0 … keys: causal strips end where their tile ends. The gradients of keys
// and values are sums over tiles and over the heads that share them; only the first product of a sum overwrites.
struct Tile {
  int64_t begin = 0, rows = 0, keys = 0;
  const Gemm *scores = nullptr, *context = nullptr;             // forward
  const Gemm *d_probabilities = nullptr, *d_queries = nullptr;  // backward
  const Gemm *first_keys = nullptr, *first_values = nullptr, *d_keys = nullptr, *d_values = nullptr;
};

struct Plan {
  std::vector<Tile> tiles;
  uint64_t scratch = 0;  // of the products
  uint64_t strip = 0;    // elements of the largest strip
};

// Heads are spread over threads, so the products of a head use one thread each.
class OneThread {
 public:
  OneThread() : before_(core::threads()) { core::set_threads(1); }
  ~OneThread() { core::set_threads(before_); }

 private:
  int before_;
};

const Gemm* keep(Plan& plan, const GemmSpec& spec) {
  const Gemm& gemm = find_gemm(spec);
  plan.scratch = std::max(plan.scratch, gemm.workspace_bytes());
  return &gemm;
}

Plan make_plan(const AttentionShape& s, bool backward) {
  const OneThread one;
  Plan plan;
  const int64_t C = s.C(), W = s.width, row = s.row();
  const DType type = s.type;
  for (int64_t begin = 0; begin < s.T; begin += query_tile) {
    Tile tile{begin, std::min(query_tile, s.T - begin), 0};
    tile.keys = begin + tile.rows;
    const int64_t m = tile.rows, n = tile.keys;
    plan.strip = std::max(plan.strip, static_cast<uint64_t>(m * n));
    const auto product = [&](int64_t M, int64_t N, int64_t K, bool ta, bool tb, int64_t lda, int64_t ldb, int64_t ldc,
                             DType c, bool accumulate) {
      return keep(plan, {M, N, K, ta, tb, lda, ldb, ldc, type, type, c, false, accumulate, 1});
    };
    tile.scores = product(m, n, W, false, true, row, row, n, DType::f32, false);
    if (!backward) {
      tile.context = product(m, W, n, false, false, n, row, C, type, false);
    } else {
      tile.d_probabilities = product(m, n, W, false, true, C, row, n, DType::f32, false);
      tile.d_queries = product(m, W, n, false, false, n, row, row, type, false);
      const bool last = n == s.T;  // tiles run from the last, which covers all keys, to the first
      if (last) {
        tile.first_keys = product(n, W, m, true, false, n, row, W, DType::f32, false);
        tile.first_values = product(n, W, m, true, false, n, C, W, DType::f32, false);
      }
      if (!last || s.heads > s.kv_heads) {
        tile.d_keys = product(n, W, m, true, false, n, row, W, DType::f32, true);
        tile.d_values = product(n, W, m, true, false, n, C, W, DType::f32, true);
      }
    }
    plan.tiles.push_back(tile);
  }
  return plan;
}

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
  void *p, *ds;              // in the compute type; for fp32 they are scores and d_scores themselves
  float *d_keys, *d_values;  // (T, width)
};

Strips lay_out_strips(BumpAllocator& layout, const AttentionShape& s, const Plan& plan, bool backward) {
  Strips strips{};
  const bool half = s.type != DType::f32;
  const uint64_t narrow = half ? plan.strip * core::dtype_size(s.type) : 0;
  strips.scratch = layout.take<std::byte>(plan.scratch);
  strips.mask = layout.take<float>(s.dropout > 0 ? static_cast<uint64_t>(s.T) * 4 : 0);
  strips.scores = layout.take<float>(plan.strip * 4);
  strips.p = half ? layout.take(narrow) : strips.scores;
  if (backward) {
    strips.d_scores = layout.take<float>(plan.strip * 4);
    strips.ds = half ? layout.take(narrow) : strips.d_scores;
    strips.d_keys = layout.take<float>(static_cast<uint64_t>(s.T * s.width) * 4);
    strips.d_values = layout.take<float>(static_cast<uint64_t>(s.T * s.width) * 4);
  }
  return strips;
}

uint64_t workspace_bytes(const AttentionShape& s, bool backward) {
  const Plan plan = make_plan(s, backward);
  BumpAllocator layout;
  const int64_t count = slots(s, independent_heads(s, backward));
  for (int64_t slot = 0; slot < count; ++slot) lay_out_strips(layout, s, plan, backward);
  return layout.bytes();
}

// Calls body(sample, head, strips) for every head, in backward for every head of keys and values.
template <class Body>
void for_each_head(const AttentionShape& s, const Plan& plan, bool backward, std::byte* workspace, const Body& body) {
  const int64_t heads = independent_heads(s, backward), count = slots(s, heads);
  std::vector<Strips> strips;
  BumpAllocator layout(workspace);
  for (int64_t slot = 0; slot < count; ++slot) strips.push_back(lay_out_strips(layout, s, plan, backward));
  core::parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      for (int64_t i = slot; i < s.B * heads; i += count) {
        body(i / heads, i % heads, strips[static_cast<size_t>(slot)]);
      }
    }
  });
}

// The mask of a row of probabilities, or null.
const float* row_mask(const AttentionShape& s, const Dropout& dropout, uint64_t sample, int64_t head, int64_t query,
                      float* mask) {
  if (s.dropout == 0) return nullptr;
  const uint64_t row = s.dropout_row(sample, head) + static_cast<uint64_t>(query);
  vector_kernels().dropout_mask(dropout_key(dropout), row * static_cast<uint64_t>(s.T), mask, query + 1);
  return mask;
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
  const Plan plan = make_plan(s, false);
  const int64_t C = s.C(), T = s.T, row = s.row();
  with_type(s.type, [&](auto zero) {
    using E = decltype(zero);
    for_each_head(s, plan, false, workspace, [&](int64_t b, int64_t h, const Strips& strips) {
      const E* sample = static_cast<const E*>(qkv) + b * T * row;
      const E *q = sample + h * s.width, *k = sample + C + h / s.group() * s.width, *v = k + s.kv();
      E* to = static_cast<E*>(out) + b * T * C + h * s.width;
      E* p = static_cast<E*>(strips.p);
      for (const Tile& tile : plan.tiles) {
        tile.scores->run(q + tile.begin * row, k, strips.scores, nullptr, strips.scratch);
        for (int64_t i = 0; i < tile.rows; ++i) {
          const int64_t query = tile.begin + i;
          const float* mask = row_mask(s, dropout, first_sample + static_cast<uint64_t>(b), h, query, strips.mask);
          const float sum = typed_kernels<E>().softmax(strips.scores + i * tile.keys, p + i * tile.keys, query + 1,
                                                       tile.keys, s.scale(), mask);
          if (lse != nullptr) lse[(b * s.heads + h) * T + query] = sum;
        }
        tile.context->run(p, v, to + tile.begin * C, nullptr, strips.scratch);
      }
    });
  });
}

void attention_backward(const AttentionShape& s, const void* qkv, const void*, const float* lse, const void* d_out,
                        void* d_qkv, const Dropout& dropout, uint64_t first_sample, std::byte* workspace) {
  const Plan plan = make_plan(s, true);
  const int64_t C = s.C(), T = s.T, W = s.width, row = s.row();
  with_type(s.type, [&](auto zero) {
    using E = decltype(zero);
    for_each_head(s, plan, true, workspace, [&](int64_t b, int64_t shared, const Strips& strips) {
      const int64_t k_at = b * T * row + C + shared * W, v_at = k_at + s.kv();
      const E *k = static_cast<const E*>(qkv) + k_at, *v = static_cast<const E*>(qkv) + v_at;
      E *p = static_cast<E*>(strips.p), *ds = static_cast<E*>(strips.ds);
      for (int64_t h = shared * s.group(); h < (shared + 1) * s.group(); ++h) {
        const E* q = static_cast<const E*>(qkv) + b * T * row + h * W;
        const E* d_o = static_cast<const E*>(d_out) + b * T * C + h * W;
        E* dq = static_cast<E*>(d_qkv) + b * T * row + h * W;
        for (auto it = plan.tiles.rbegin(); it != plan.tiles.rend(); ++it) {
          const Tile& tile = *it;
          tile.scores->run(q + tile.begin * row, k, strips.scores, nullptr, strips.scratch);
          tile.d_probabilities->run(d_o + tile.begin * C, v, strips.d_scores, nullptr, strips.scratch);
          for (int64_t i = 0; i < tile.rows; ++i) {
            const int64_t query = tile.begin + i, at = i * tile.keys;
            const float* mask = row_mask(s, dropout, first_sample + static_cast<uint64_t>(b), h, query, strips.mask);
            typed_kernels<E>().softmax_backward(strips.scores + at, strips.d_scores + at, p + at, ds + at, query + 1,
                                                tile.keys, s.scale(), lse[(b * s.heads + h) * T + query], mask);
          }
          const bool first = h == shared * s.group() && it == plan.tiles.rbegin();
          const Gemm &d_values = *(first ? tile.first_values : tile.d_values),
                     &d_keys = *(first ? tile.first_keys : tile.d_keys);
          d_values.run(p, d_o + tile.begin * C, strips.d_values, nullptr, strips.scratch);
          d_keys.run(ds, q + tile.begin * row, strips.d_keys, nullptr, strips.scratch);
          tile.d_queries->run(ds, k, dq + tile.begin * row, nullptr, strips.scratch);
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

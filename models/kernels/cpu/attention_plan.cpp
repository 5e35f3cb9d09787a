#include "models/kernels/cpu/attention_plan.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/parallel.h"

namespace zrt::models::cpu {
namespace {

constexpr int64_t query_tile = 96;          // of dense attention
constexpr int64_t sparse_query_tile = 128;  // a window of 8 blocks of 16
constexpr int64_t document_tile = 64;       // queries, and keys that a tile begins at a multiple of

// Heads are spread over threads, so the products of a head use one thread each.
class OneThread {
 public:
  OneThread() : before_(core::threads()) { core::set_threads(1); }
  ~OneThread() { core::set_threads(before_); }

 private:
  int before_;
};

// Keeps of a shape what the tiles depend on, and no more.
AttentionShape distinct(const AttentionShape& s) {
  AttentionShape key = s;
  key.B = 1, key.dropout = 0, key.all_heads = key.first_head = 0, key.positions = nullptr;
  return key;
}

bool same(const AttentionShape& a, const AttentionShape& b) {
  return a.T == b.T && a.heads == b.heads && a.kv_heads == b.kv_heads && a.width == b.width && a.type == b.type &&
         a.pattern == b.pattern && a.documents == b.documents;
}

// True where query blocks `at - 1` and `at` see the same keys but those behind them.
bool alike(const HeadPattern& pattern, int at, int blocks) {
  for (int key = 0; key < (pattern.causal ? at : blocks); ++key) {
    if (pattern.keeps(at, key) != pattern.keeps(at - 1, key)) return false;
  }
  return true;
}

std::vector<AttentionTile> sparse_tiles(const AttentionShape& s, int head) {
  const AttentionPattern& pattern = s.pattern;
  const int blocks = pattern.blocks(s.T);
  const HeadPattern kept = pattern.of(head, blocks);
  std::vector<AttentionTile> tiles;
  for (int first = 0, end = 0; first < blocks; first = end) {
    end = first + 1;
    while (end < blocks && (end + 1 - first) * int64_t{pattern.block} <= sparse_query_tile &&
           alike(kept, end, blocks)) {
      ++end;
    }
    AttentionTile tile;
    tile.begin = int64_t{first} * pattern.block;
    tile.rows = std::min(int64_t{end} * pattern.block, s.T) - tile.begin;
    for (int key = 0; key < blocks; ++key) {
      if (!kept.keeps(end - 1, key)) continue;
      const int64_t begin = int64_t{key} * pattern.block, count = std::min<int64_t>(pattern.block, s.T - begin);
      const bool goes_on = !tile.runs.empty() && tile.runs.back().begin + tile.runs.back().count == begin;
      if (goes_on) {
        tile.runs.back().count += count;
      } else {
        tile.runs.push_back({begin, count});
      }
      tile.keys += count;
    }
    // A long block's queries in several tiles, so that no strip of scores is as long as it.
    for (const int64_t behind = tile.begin + tile.rows; tile.begin < behind; tile.begin += tile.rows) {
      tile.rows = std::min(sparse_query_tile, behind - tile.begin);
      tiles.push_back(tile);
    }
  }
  return tiles;
}

// Keys from the first that the tile's first query sees: one run, of which the later queries see less.
std::vector<AttentionTile> window_tiles(const AttentionShape& s) {
  std::vector<AttentionTile> tiles;
  for (int64_t begin = 0; begin < s.T; begin += query_tile) {
    AttentionTile tile;
    tile.begin = begin, tile.rows = std::min(query_tile, s.T - begin);
    const int64_t first = s.pattern.first_key(static_cast<int>(begin));
    tile.keys = begin + tile.rows - first;
    tile.runs = {{first, tile.keys}};
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

std::vector<AttentionTile> dense_tiles(const AttentionShape& s) {
  std::vector<AttentionTile> tiles;
  for (int64_t begin = 0; begin < s.T; begin += query_tile) {
    AttentionTile tile;
    tile.begin = begin, tile.rows = std::min(query_tile, s.T - begin);
    tile.keys = s.pattern.causal ? begin + tile.rows : s.T;
    tile.runs = {{0, tile.keys}};
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

// Tiles follow the documents of a sample.
bool follows_documents(const AttentionShape& s) {
  return s.documents && (s.pattern.window > 0 || !s.pattern.sparse());
}

// Makes tiles over 64, 128, … keys, and for the last, shorter tile of a sequence over as many and its own.
std::vector<AttentionTile> sizes_of_tiles(const AttentionShape& s) {
  const int64_t whole = s.T / document_tile, rest = s.T % document_tile, window = s.pattern.window;
  // A window's first key lies up to 63 keys behind the multiple of 64 that the tile begins at.
  const int64_t most = window > 0 ? std::min(whole, (window + 2 * document_tile - 2) / document_tile) : whole;
  std::vector<AttentionTile> tiles;
  const auto add = [&](int64_t rows, int64_t keys) {
    AttentionTile& tile = tiles.emplace_back();
    tile.rows = rows, tile.keys = keys, tile.runs = {{0, keys}};
  };
  for (int64_t n = 1; n <= most; ++n) add(document_tile, n * document_tile);
  for (int64_t n = 0; rest > 0 && n <= most; ++n) add(rest, n * document_tile + rest);
  return tiles;
}

std::vector<AttentionTile> plan_tiles(const AttentionShape& s, int head) {
  if (follows_documents(s)) return sizes_of_tiles(s);
  return s.pattern.window > 0 ? window_tiles(s) : s.pattern.sparse() ? sparse_tiles(s, head) : dense_tiles(s);
}

AttentionPlan make_plan(const AttentionShape& s, int head, bool backward) {
  const OneThread one;
  AttentionPlan plan;
  plan.tiles = plan_tiles(s, head);
  const int64_t C = s.C(), W = s.width, row = s.row();
  const DType type = s.type, f32 = DType::f32;
  const auto product = [&](int64_t M, int64_t N, int64_t K, bool ta, bool tb, int64_t lda, int64_t ldb, int64_t ldc,
                           DType c, bool accumulate) {
    const Gemm& gemm = find_gemm({M, N, K, ta, tb, lda, ldb, ldc, type, type, c, false, accumulate, 1});
    plan.scratch = std::max(plan.scratch, gemm.workspace_bytes());
    return &gemm;
  };
  for (AttentionTile& tile : plan.tiles) {
    const int64_t m = tile.rows, n = tile.keys, from = tile.gathers() ? W : row;  // where keys and values lie
    plan.strip = std::max(plan.strip, static_cast<uint64_t>(m * n));
    if (tile.gathers()) plan.gathered = std::max(plan.gathered, static_cast<uint64_t>(n * W));
    tile.scores = product(m, n, W, false, true, row, from, n, f32, false);
    if (!backward) {
      tile.context = product(m, W, n, false, false, n, from, C, type, false);
      continue;
    }
    tile.d_probabilities = product(m, n, W, false, true, C, from, n, f32, false);
    tile.d_queries = product(m, W, n, false, false, n, from, row, type, false);
    // Tiles run from the last, which in dense attention covers all keys, to the first.
    const bool first = !s.pattern.sparse() && !s.documents && &tile == &plan.tiles.back();
    if (first) {
      tile.first_keys = product(n, W, m, true, false, n, row, W, f32, false);
      tile.first_values = product(n, W, m, true, false, n, C, W, f32, false);
    }
    if (!first || s.heads > s.kv_heads) {
      tile.d_keys = product(n, W, m, true, false, n, row, W, f32, !tile.gathers());
      tile.d_values = product(n, W, m, true, false, n, C, W, f32, !tile.gathers());
    }
  }
  return plan;
}

}  // namespace

int64_t AttentionTile::seen(int64_t query, bool causal) const {
  if (!causal) return keys;
  int64_t count = 0;
  for (const Run& run : runs) count += std::clamp<int64_t>(query + 1 - run.begin, 0, run.count);
  return count;
}

int64_t AttentionTile::before(int64_t first) const {
  int64_t count = 0;
  for (const Run& run : runs) count += std::clamp<int64_t>(first - run.begin, 0, run.count);
  return count;
}

std::vector<AttentionTile> document_tiles(const AttentionPlan& plan, const AttentionShape& s, int64_t sample) {
  if (!follows_documents(s)) return {};
  const auto whole = std::count_if(plan.tiles.begin(), plan.tiles.end(),
                                   [](const AttentionTile& tile) { return tile.rows == document_tile; });
  std::vector<AttentionTile> tiles;
  for (int64_t begin = 0; begin < s.T; begin += document_tile) {
    const int64_t rows = std::min(document_tile, s.T - begin);
    const int64_t first = s.first_key(sample, begin) / document_tile * document_tile, keys = begin + rows - first;
    const int64_t size = keys / document_tile - 1 + (rows < document_tile ? whole + 1 : 0);
    AttentionTile tile = plan.tiles[static_cast<size_t>(size)];
    tile.begin = begin, tile.runs = {{first, keys}};
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

std::shared_ptr<const AttentionPlans> attention_plans(const AttentionShape& shape, bool backward) {
  struct Made {
    AttentionShape shape;
    bool backward;
    std::shared_ptr<const AttentionPlans> plans;
  };
  static std::mutex mutex;
  static std::vector<Made> made;
  const AttentionShape key = distinct(shape);
  const std::lock_guard lock(mutex);
  for (const Made& each : made) {
    if (each.backward == backward && same(each.shape, key)) return each.plans;
  }
  auto plans = std::make_shared<AttentionPlans>();
  const int count = key.pattern.kind == AttentionPattern::Kind::fixed ? key.pattern.choices : 1;
  for (int head = 0; head < count; ++head) plans->push_back(make_plan(key, head, backward));
  made.push_back({key, backward, plans});
  return plans;
}

}  // namespace zrt::models::cpu

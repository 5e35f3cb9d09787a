// Attention on the CPU is cut into products by tiles of queries that attend to the same keys, but for those behind a
// query. Keys that do not lie in one run are gathered, so that a tile has dense products over what is kept alone.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "models/kernels/attention.h"
#include "models/kernels/gemm.h"

namespace zrt::models::cpu {

// The gradients of keys and values are sums over tiles and over the heads that share them; only the first product of a
// sum of dense attention overwrites.
struct AttentionTile {
  struct Run {
    int64_t begin = 0, count = 0;
  };
  int64_t begin = 0, rows = 0, keys = 0;                        // first query and their number; keys in all runs
  std::vector<Run> runs;                                        // ascending
  const Gemm *scores = nullptr, *context = nullptr;             // forward
  const Gemm *d_probabilities = nullptr, *d_queries = nullptr;  // backward
  const Gemm *first_keys = nullptr, *first_values = nullptr, *d_keys = nullptr, *d_values = nullptr;

  bool gathers() const { return runs.size() > 1; }
  // Keys that a query sees: the first so many.
  int64_t seen(int64_t query, bool causal) const;
  // Returns how many keys lie before `first`.
  int64_t before(int64_t first) const;
};

struct AttentionPlan {
  // They cover a sample; where tiles follow its documents there is one of each size, for document_tiles().
  std::vector<AttentionTile> tiles;
  uint64_t scratch = 0;   // bytes, of the products
  uint64_t strip = 0;     // elements of the largest strip of scores
  uint64_t gathered = 0;  // elements of the most keys that a tile gathers
};

// A plan for each choice of global blocks: head h has the one of (first_head + h) mod their number. They are made once
// for a shape and kept. Thread safe.
using AttentionPlans = std::vector<AttentionPlan>;
std::shared_ptr<const AttentionPlans> attention_plans(const AttentionShape& shape, bool backward);

// Makes the tiles of a sample whose documents they follow, each over the keys from the begin of its first query's
// document on. Empty where the plan's own cover all samples.
std::vector<AttentionTile> document_tiles(const AttentionPlan& plan, const AttentionShape& shape, int64_t sample);

}  // namespace zrt::models::cpu

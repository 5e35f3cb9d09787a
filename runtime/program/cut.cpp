#include "runtime/program/cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "core/error.h"
#include "models/sharing.h"

namespace zrt::runtime {
namespace {

// Fills runs from the last one on as long as each weighs at most `most`, and leaves a block for each run before it.
// Returns their ends, in order; empty: that is not possible.
std::vector<size_t> fill(std::span<const double> weights, size_t chunks, double most) {
  std::vector<size_t> ends(chunks);
  size_t end = weights.size();
  for (size_t chunk = chunks; chunk-- > 0;) {
    ends[chunk] = end;
    double weight = 0;
    size_t begin = end;
    while (begin > chunk && (begin == end || weight + weights[begin - 1] <= most)) weight += weights[--begin];
    if (weight > most) return {};
    end = begin;
  }
  return end == 0 ? ends : std::vector<size_t>{};
}

}  // namespace

std::vector<size_t> cut_blocks(std::span<const double> weights, size_t chunks) {
  if (chunks < 1 || chunks > weights.size()) {
    throw core::ConfigError(
        fmt::format("a model of {} blocks, embedding and head included, cannot be cut into {} parts: each takes at "
                    "least one block. "
                    "Use at most {} stages times chunks",
                    weights.size(), chunks, weights.size()));
  }
  // The heaviest run of the best cut weighs as much as some run of blocks does: the search ends at it.
  double low = *std::max_element(weights.begin(), weights.end());
  double high = std::accumulate(weights.rbegin(), weights.rend(), 0.0);  // in the order of fill
  std::vector<size_t> best = fill(weights, chunks, high);
  if (const std::vector<size_t> least = fill(weights, chunks, low); !least.empty()) return least;
  for (int step = 0; step < 100; ++step) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    std::vector<size_t> ends = fill(weights, chunks, middle);
    if (ends.empty()) {
      low = middle;
    } else {
      high = middle, best = std::move(ends);
    }
  }
  return best;
}

std::vector<std::vector<size_t>> blocks_of_stages(std::span<const size_t> ends, size_t stages) {
  std::vector<std::vector<size_t>> blocks(stages);
  size_t block = 0;
  for (size_t chunk = 0; chunk < ends.size(); ++chunk) {
    for (; block < ends[chunk]; ++block) blocks[chunk % stages].push_back(block);
  }
  return blocks;
}

int stages_that_share(const models::Model& whole, const std::vector<std::vector<size_t>>& blocks_of_stages) {
  if (!whole.shares_layers) return 1;
  std::map<std::string, std::set<size_t>> users;  // stages, by parameter of a layer
  for (size_t stage = 0; stage < blocks_of_stages.size(); ++stage) {
    for (const size_t block : blocks_of_stages[stage]) {
      for (const models::Param& param : whole.blocks[block]->params()) {
        if (models::layer_of(param.name) >= 0) users[param.name].insert(stage);
      }
    }
  }
  size_t together = 1;
  for (const auto& [name, stages] : users) together = std::max(together, stages.size());
  for (const auto& [name, stages] : users) {
    if (stages.size() == 1) continue;
    const size_t first = *stages.begin();
    if (stages.size() == together && *stages.rbegin() - first + 1 == together && first % together == 0) continue;
    throw core::ConfigError(
        fmt::format("layers of the stages {} share '{}', and other layers are shared by {} stages: stages that share "
                    "must divide the "
                    "pipeline into equal parts. Choose pseudo_to_real.groups and parallel.partition so that each group "
                    "of layers is one "
                    "stage's or that of so many, such as groups = 1, or as many groups as parallel.pipeline",
                    fmt::join(stages, ", "), name, together));
  }
  return static_cast<int>(together);
}

}  // namespace zrt::runtime

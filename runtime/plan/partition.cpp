#include "runtime/plan/partition.h"

#include <fmt/format.h>

#include <numeric>

#include "core/error.h"
#include "runtime/cost/cost.h"
#include "runtime/plan/fit.h"
#include "runtime/program/block_plan.h"
#include "runtime/program/cut.h"

namespace zrt::runtime {
namespace {

std::vector<size_t> listed_ends(const std::vector<int64_t>& counts, size_t blocks) {
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (all != static_cast<int64_t>(blocks)) {
    throw core::ConfigError(
        fmt::format("parallel.partition counts {} blocks but the model has {}: {} layers, the embedding and the head. "
                    "Change one of its numbers, or use \"time\".",
                    all, blocks, blocks - 2));
  }
  std::vector<size_t> ends;
  ends.reserve(counts.size());
  size_t end = 0;
  for (const int64_t count : counts) ends.push_back(end += static_cast<size_t>(count));
  return ends;
}

double elements_of(const models::Block& block) {
  double elements = 0;
  for (const models::Param& param : block.params()) elements += static_cast<double>(param.elements());
  return elements;
}

// Returns the seconds of a forward and a backward over a microbatch, and of what is computed again in between.
double seconds_of(const Layout& whole, size_t block, const Cluster& cluster) {
  const bool last = block + 1 == whole.model->blocks.size();
  const models::Shape shape = whole.shape(models::Mode::train, block);
  const BlockCost cost = block_cost(*whole.model->blocks[block], shape, last, cluster);
  double again = 0;  // shares of the forward
  const BlockPlan plan(whole, block);
  for (const models::Parts parts : plan.recomputes()) {
    again += share_of_pass(*whole.model->blocks[block], shape, parts, models::Half::both);
  }
  return cost.forward_seconds * (1 + again) + cost.backward_seconds;
}

}  // namespace

std::vector<size_t> chunk_ends(const Config& config, const Layout& whole) {
  const Partition& partition = config.parallel.partition;
  const auto& blocks = whole.model->blocks;
  const auto chunks =
      static_cast<size_t>(config.parallel.schedule.stages) * static_cast<size_t>(config.parallel.schedule.chunks);
  if (partition.by == Partition::By::list) return listed_ends(partition.counts, blocks.size());
  std::vector<double> weights(blocks.size(), 1);
  if (partition.by != Partition::By::blocks) {
    const Cluster cluster = machine_of(config);
    for (size_t b = 0; b < blocks.size(); ++b) {
      weights[b] = partition.by == Partition::By::time ? seconds_of(whole, b, cluster) : elements_of(*blocks[b]);
    }
  }
  return cut_blocks(weights, chunks);
}

}  // namespace zrt::runtime

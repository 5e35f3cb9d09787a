// Where a model is cut for a pipeline.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace zrt::runtime {

// Cuts blocks of these weights (not negative), in their order, into `chunks` runs of at least one block so that the
// heaviest run is as light as can be; of such cuts the one whose last runs are fullest, because under 1F1B the first
// stages keep most activations. Returns the block behind each run, the last of them the number of blocks. Throws
// core::ConfigError when there are more chunks than blocks.
std::vector<size_t> cut_blocks(std::span<const double> weights, size_t chunks);

// The blocks of each stage: chunk c of stage s is run c × stages + s. `ends` as cut_blocks returns them, a multiple of
// `stages`.
std::vector<std::vector<size_t>> blocks_of_stages(std::span<const size_t> ends, size_t stages);

}  // namespace zrt::runtime

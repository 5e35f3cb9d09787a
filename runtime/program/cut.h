// Cuts a model for a pipeline.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "models/model.h"

namespace zrt::runtime {

// Cuts blocks of these weights (not negative), in their order, into `chunks` runs of at least one block so that the
// heaviest run is as light as can be; of such cuts the one whose last runs are fullest, because under 1F1B the first
// stages keep most activations. Returns the block behind each run, the last of them the number of blocks. Throws
// core::ConfigError when there are more chunks than blocks.
std::vector<size_t> cut_blocks(std::span<const double> weights, size_t chunks);

// The blocks of each stage: chunk c of stage s is run c × stages + s. `ends` as cut_blocks returns them, a multiple of
// `stages`.
std::vector<std::vector<size_t>> blocks_of_stages(std::span<const size_t> ends, size_t stages);

// Counts the stages next to each other whose layers share parameters; 1 where none share with another stage. Throws
// core::ConfigError where stages that share do not divide the pipeline into equal parts.
int stages_that_share(const models::Model& whole, const std::vector<std::vector<size_t>>& blocks_of_stages);

}  // namespace zrt::runtime

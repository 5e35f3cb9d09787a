// Says where a configuration cuts a model for its pipeline.
#pragma once
#include <vector>

#include "runtime/config/config.h"
#include "runtime/program/layout.h"

namespace zrt::runtime {

// The block behind each chunk, as cut_blocks() returns them. `whole`: the layout of the model without a pipeline.
// Throws ConfigError when there are more chunks than blocks, and for a list that does not count all blocks.
std::vector<size_t> chunk_ends(const Config& config, const Layout& whole);

}  // namespace zrt::runtime

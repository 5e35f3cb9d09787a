// The buffer that holds what came to each expert in a step: a models::ExpertLoad for each expert of each block that
// routes, in the order of blocks. A step's begin empties it, backwards add to it, and the host may read it behind the
// step; ranks do not exchange it.
#pragma once
#include <string_view>

#include "models/model.h"

namespace zrt::runtime {

inline constexpr std::string_view expert_loads = "expert loads";  // the buffer's name

// Counts the experts of blocks in front of one; of all blocks by default.
inline size_t experts_before(const models::Model& model, size_t block = ~size_t{0}) {
  size_t experts = 0;
  for (size_t b = 0; b < model.blocks.size() && b < block; ++b) {
    experts += static_cast<size_t>(model.blocks[b]->experts());
  }
  return experts;
}
inline uint64_t expert_load_bytes(const models::Model& model) {
  return experts_before(model) * sizeof(models::ExpertLoad);
}

}  // namespace zrt::runtime

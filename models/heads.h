// The number of ranks that can share the heads of a layer.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace zrt::models {

struct Heads {
  const char* key;  // of the configuration, which says how many
  int64_t count;
};

// Says what is wrong with a tensor-parallel degree that does not divide them all, and which degrees do: "does not
// divide model.heads = 12: …"; "" where it does.
std::string uneven_heads(int tensor, const std::vector<Heads>& all);

}  // namespace zrt::models

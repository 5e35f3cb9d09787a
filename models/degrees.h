// The number of ranks that share the work of each block, and how they do.
#pragma once

namespace zrt::models {

struct Degrees {
  int tensor = 1;  // ranks that share the work of each block
  // True where these ranks share the rows, too, of what is computed row by row between their exchanges.
  bool sequence_parallel = false;
  int expert = 1;  // ranks that have a part of each layer's experts, and compute these for one another's samples
  bool operator==(const Degrees&) const = default;
  bool shares_rows() const { return tensor > 1 && sequence_parallel; }
};

}  // namespace zrt::models

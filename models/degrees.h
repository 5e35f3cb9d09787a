// Among how many ranks the work of each block is divided, and how.
#pragma once

namespace zrt::models {

struct Degrees {
  int tensor = 1;  // ranks that share the work of each block
  // … and the rows, too, of what is computed row by row between their exchanges.
  bool sequence_parallel = false;
  bool shares_rows() const { return tensor > 1 && sequence_parallel; }
};

}  // namespace zrt::models

#include "models/block.h"

namespace zrt::models {

int64_t Param::elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

}  // namespace zrt::models

#include "models/seam.h"

namespace zrt::models {

std::string_view collective_name(Collective collective) {
  constexpr std::string_view names[] = {"nothing", "all-reduce", "reduce-scatter", "all-gather"};
  return names[static_cast<size_t>(collective)];
}

}  // namespace zrt::models

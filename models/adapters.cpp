#include "models/adapters.h"

#include <fnmatch.h>

#include <algorithm>

namespace zrt::models {

bool Adapters::takes(const std::string& target, std::string_view layer) {
  if (target.find_first_of("*?") != std::string::npos)
    return fnmatch(target.c_str(), std::string(layer).c_str(), 0) == 0;
  return layer == target || layer.ends_with("." + target);
}

bool Adapters::takes(std::string_view layer) const {
  if (rank == 0) return false;
  return targets.empty() ||
         std::any_of(targets.begin(), targets.end(), [&](const std::string& target) { return takes(target, layer); });
}

}  // namespace zrt::models

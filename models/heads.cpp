#include "models/heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace zrt::models {

std::string uneven_heads(int tensor, const std::vector<Heads>& all) {
  const auto divides = [](int64_t degree, const Heads& heads) { return degree >= 1 && heads.count % degree == 0; };
  const auto uneven = std::find_if(all.begin(), all.end(), [&](const Heads& heads) { return !divides(tensor, heads); });
  if (uneven == all.end()) return "";
  int64_t common = 0;
  for (const Heads& heads : all) common = std::gcd(common, heads.count);
  std::vector<int64_t> legal;
  for (int64_t degree = 1; degree <= common; ++degree) {
    if (common % degree == 0) legal.push_back(degree);
  }
  return fmt::format("does not divide {} = {}: every tensor-parallel rank has as many heads. Legal are {}.",
                     uneven->key, uneven->count, fmt::join(legal, ", "));
}

}  // namespace zrt::models

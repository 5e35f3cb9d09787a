#include "optimizer/zero.h"

#include <fmt/format.h>

#include <array>

#include "core/error.h"

namespace zrt::optimizer {

ZeroStrategy zero_strategy(int stage) {
  constexpr Extent full = Extent::full, shard = Extent::shard;
  constexpr std::array<ZeroStrategy, 4> strategies{
      {{{full, full, full}, 0}, {{full, full, shard}, 1}, {{full, shard, shard}, 2}, {{shard, shard, shard}, 3}}};
  if (stage < 0 || stage >= static_cast<int>(strategies.size())) {
    throw core::ConfigError(fmt::format("zero_optimization.stage is {}; legal are 0, 1, 2 and 3", stage));
  }
  return strategies[static_cast<size_t>(stage)];
}

}  // namespace zrt::optimizer

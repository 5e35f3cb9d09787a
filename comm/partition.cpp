#include "comm/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace zrt::comm {
namespace {

constexpr size_t listed = 8;  // ranks of a group that a name spells out

// The constant distance between neighbours, or 0.
int distance(const std::vector<int>& ranks) {
  const int step = ranks.size() < 2 ? 0 : ranks[1] - ranks[0];
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i] - ranks[i - 1] != step) return 0;
  }
  return step;
}

}  // namespace

Partition one_group(int world) {
  std::vector<int> all(static_cast<size_t>(world));
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

void check_partition(const std::string& name, const Partition& partition, int world) {
  std::vector<int> times(static_cast<size_t>(world));
  for (const std::vector<int>& group : partition) {
    if (group.empty()) throw core::CommError(fmt::format("one of the groups {} has no ranks; leave it out", name));
    for (int rank : group) {
      if (rank < 0 || rank >= world) {
        throw core::CommError(
            fmt::format("a group {} names rank {}; the ranks of this run are 0 to {}", name, rank, world - 1));
      }
      ++times[static_cast<size_t>(rank)];
    }
  }
  for (int rank = 0; rank < world; ++rank) {
    const int n = times[static_cast<size_t>(rank)];
    if (n == 1) continue;
    throw core::CommError(fmt::format("rank {} is in {} of the groups {}; every rank of the run must be in exactly one",
                                      rank, n == 0 ? "none" : std::to_string(n), name));
  }
}

std::string group_name(const std::string& name, const std::vector<int>& ranks, int world) {
  const int step = distance(ranks);
  if (ranks == one_group(world)[0]) return name;
  if (step == 1) return fmt::format("{}[{}-{}]", name, ranks.front(), ranks.back());
  if (ranks.size() <= listed) return fmt::format("{}[{}]", name, fmt::join(ranks, ","));
  if (step != 0) return fmt::format("{}[{},{},…,{}]", name, ranks[0], ranks[1], ranks.back());
  return fmt::format("{}[{},… {} more]", name, fmt::join(ranks.begin(), ranks.begin() + listed, ","),
                     ranks.size() - listed);
}

Seat seat_of(const Partition& partition, int rank) {
  for (size_t g = 0; g < partition.size(); ++g) {
    const auto found = std::find(partition[g].begin(), partition[g].end(), rank);
    if (found != partition[g].end()) return {g, static_cast<int>(found - partition[g].begin())};
  }
  throw core::CommError(fmt::format("rank {} is in no group", rank));
}

}  // namespace zrt::comm

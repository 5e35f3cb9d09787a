#include "runtime/passes/staging.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/nccl/staging.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

// Says that one of the groups of this kind has ranks beyond the reach of its first one. All groups of the kind have a
// buffer then, so that the programs of all ranks are equal.
bool leaves(const Group& group, int world, int reach) {
  const int span = group.size * group.stride, last = (group.size - 1) * group.stride;
  for (int begin = group.first; begin + last < world; begin += span) {
    for (int rank = begin; rank < begin + group.stride && rank + last < world; ++rank) {
      if (rank / reach != (rank + last) / reach) return true;
    }
  }
  return false;
}

bool used(const ProgramSet& set, size_t group) {
  return std::any_of(set.programs.begin(), set.programs.end(), [&](const Program& program) {
    return std::any_of(program.ops.begin(), program.ops.end(),
                       [&](const Op& op) { return spec(op.kind).communicates() && op.group == group; });
  });
}

}  // namespace

bool leaves_reach(const Layout& layout) {
  return layout.ranks_in_reach > 0 && layout.ranks_in_reach < layout.world();
}

void add_staging(Compilation& c) {
  for (size_t g = 0; g < c.set.groups.size(); ++g) {
    Group& group = c.set.groups[g];
    const uint64_t bytes = comm::nccl_staging_bytes(group.size);
    if (bytes == 0 || !used(c.set, g) || !leaves(group, c.layout.world(), c.layout.ranks_in_reach)) continue;
    Buffer buffer{fmt::format("NCCL's staging of {}", group.name), core::Category::comm, Life::reserved, bytes};
    group.staging = c.set.add(std::move(buffer));
  }
}

}  // namespace zrt::runtime

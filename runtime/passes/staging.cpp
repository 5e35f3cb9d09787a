#include "runtime/passes/staging.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/nccl/staging.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

bool used(const ProgramSet& set, size_t group) {
  return std::any_of(set.programs.begin(), set.programs.end(), [&](const Program& program) {
    return std::any_of(program.ops.begin(), program.ops.end(),
                       [&](const Op& op) { return spec(op.kind).communicates() && op.group == group; });
  });
}

}  // namespace

bool leaves_reach(const Layout& layout) {
  return layout.ranks_in_reach > 0 && layout.ranks_in_reach < layout.mesh.world();
}

void add_staging(Compilation& c) {
  for (size_t g = 0; g < c.set.groups.size(); ++g) {
    Group& group = c.set.groups[g];
    const uint64_t bytes = comm::nccl_staging_bytes(group.ranks.size);
    // All groups of the kind have a buffer, so that the programs of all ranks are equal.
    if (bytes == 0 || !used(c.set, g) || !group.ranks.leave(c.layout.ranks_in_reach, c.layout.mesh.world())) continue;
    Buffer buffer{fmt::format("NCCL's staging of {}", group.name), core::Category::comm, Life::reserved, bytes};
    group.staging = c.set.add(std::move(buffer));
  }
}

}  // namespace zrt::runtime

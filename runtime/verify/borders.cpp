#include "runtime/verify/borders.h"

#include <fmt/format.h>

#include <map>

#include "runtime/ops/spec.h"
#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {
namespace {

using BlockAndMicrobatch = std::pair<uint32_t, uint32_t>;

}  // namespace

void check_borders(const Program& program, const Layout& layout) {
  std::map<BlockAndMicrobatch, Execution> made, sent, received;
  std::map<BlockAndMicrobatch, BufferId> outputs;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t turn) {
    const Op& op = program.ops[id];
    const Execution now{id, turn};
    const BlockAndMicrobatch of{op.block, op.microbatch.at(turn)};
    if (op.kind == OpKind::evaluate || op.kind == OpKind::decode) {
      made[of] = now;
      for (const Access& access : op.accesses) {
        if (access.role == Role::output) outputs[of] = access.buffer;
      }
    }
    if (op.kind != OpKind::send && op.kind != OpKind::receive) return;
    const auto [before, first] = (op.kind == OpKind::send ? sent : received).try_emplace(of, now);
    if (first) return;
    throw Fault({&program, now},
                fmt::format("program '{}' is not safe: {} {}s microbatch {} a second time after {}", program.phase,
                            name(program, now), op_kind_name(op.kind), of.second, name(program, before->second)));
  });
  for (const auto& [of, maker] : made) {
    if (!layout.model->sends(of.first) || sent.contains(of)) continue;
    const auto output = outputs.find(of);
    throw Fault({&program, {}, output == outputs.end() ? no_buffer : output->second},
                fmt::format("program '{}' is not safe: {} makes the output of '{}', microbatch {}, which is not sent "
                            "to the next stage; the last op is '{}'",
                            program.phase, name(program, maker), layout.model->blocks[of.first]->name(), of.second,
                            program.ops.back().name));
  }
}

}  // namespace zrt::runtime::verification

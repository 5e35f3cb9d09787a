#include <fmt/format.h>

#include "runtime/ops/spec.h"
#include "runtime/verify/rules.h"

namespace zrt::runtime::verification {

// The op that changed a buffer last tells what lies in it: its kind, its units, and which ranks own them.
void RefineRule::read() {
  const Op& op = walk_.op();
  size_t nth = 0;
  for (const Access& access : op.accesses) {
    const bool proposal = access.role == Role::proposal;
    if (access.use == Use::write || (!proposal && access.role != Role::refined)) continue;
    if (op.kind == OpKind::collect) require(access, OpKind::propose, {op.units[nth++]});
    if (op.kind == OpKind::refine) require(access, OpKind::collect, op.units);
    if (op.kind == OpKind::hand_out) require(access, OpKind::refine, op.units);
    if (op.kind == OpKind::update) require(access, OpKind::hand_out, op.units);
  }
}

void RefineRule::require(const Access& access, OpKind by, const std::vector<uint32_t>& units) const {
  const Content& content = walk_.at(access);
  const std::string maker = content.changed.known() ? walk_.name(content.changed) : "no op";
  if (!content.changed.known() || walk_.program.ops[content.changed.op].kind != by) {
    walk_.fail(access, fmt::format("{} wrote it, where '{}' should have", maker, op_kind_name(by)));
  }
  const Op& op = walk_.program.ops[content.changed.op];
  if (by == OpKind::hand_out) {
    if (content.unit == units[0]) return;
    walk_.fail(access,
               fmt::format("means the proposal for '{}', and {} left there that for '{}'", walk_.unit_name(units[0]),
                           maker, content.unit == none ? "no unit" : walk_.unit_name(content.unit)));
  }
  if (op.units != units) {
    walk_.fail(access, fmt::format("works on '{}' and others, and {} on '{}' and others, or not as many",
                                   walk_.unit_name(units[0]), maker, walk_.unit_name(op.units[0])));
  }
  const bool shared = by != OpKind::propose;
  if (!shared || op.first_owner == walk_.op().first_owner) return;
  walk_.fail(access, fmt::format("its first unit is owned by rank {} and that of {} by rank {}", walk_.op().first_owner,
                                 maker, op.first_owner));
}

void RefineRule::write() {
  const Op& op = walk_.op();
  if (op.kind != OpKind::propose && op.kind != OpKind::hand_out) return;
  size_t nth = 0;
  for (const Access& access : op.accesses) {
    if (access.role == Role::proposal) walk_.at(access).unit = op.units[nth++];
  }
}

}  // namespace zrt::runtime::verification

#include "runtime/verify/checks.h"
#include "runtime/verify/rule_gathers.h"
#include "runtime/verify/rules.h"

namespace zrt::runtime::verification {

namespace {

// A transfer passes on what it moves. A gradient that was evicted may be written over where it came from.
void move_content(Walk& walk) {
  Content& from = walk.at(*walk.find(Role::copied, 0));
  const Access& to = *walk.find(Role::copy, 0);
  Content moved = from;
  moved.changed = walk.now;
  if (walk.op().shard_bytes > 0 && walk.layout.units.units[walk.op().units[0]].shards() > 1) moved.spread = Spread::own;
  walk.at(to) = moved;
  if (walk.op().kind == OpKind::evict) from.used = true;
}

}  // namespace

void check_meaning(const ProgramSet& set, const Program& program, const Layout& layout,
                   const std::vector<PartOrder>& orders, const Families& families) {
  Walk walk(set, program, layout, orders);
  ActivationRule activations(walk);
  WeightRule weights(walk);
  GradRule grads(walk);
  RefineRule refinements(walk);
  GatherRule gathered(walk);
  CopyRule copies(walk, families);
  for_each_execution(program, ~0u, [&](OpId id, uint32_t turn) {
    walk.now = {id, turn};
    const Op& op = program.ops[id];
    copies.read();
    activations.read();
    weights.read();
    grads.read();
    refinements.read();
    gathered.read();
    grads.write();
    weights.write();
    refinements.write();
    gathered.write();
    copies.write();
    if (transfers(op.kind)) return move_content(walk);
    for (const Access& access : op.accesses) {
      if (access.use == Use::read) continue;
      Content& content = walk.at(access);
      content.changed = walk.now;
      if (op.kind == OpKind::gather_received) content.together = true;
      if (access.use != Use::write) continue;
      content.together = false;
      content.made = walk.now;
      content.role = access.role;
    }
  });
  activations.end();
  weights.end();
  grads.end();
  gathered.end();
  copies.end();
}

}  // namespace zrt::runtime::verification

#include "runtime/verify/checks.h"
#include "runtime/verify/rules.h"

namespace zrt::runtime::verification {

void check_meaning(const ProgramSet& set, const Program& program, const Layout& layout) {
  Walk walk(set, program, layout);
  ActivationRule activations(walk);
  WeightRule weights(walk);
  GradRule grads(walk);
  for_each_execution(program, ~0u, [&](OpId id, uint32_t turn) {
    walk.now = {id, turn};
    activations.read();
    weights.read();
    grads.read();
    grads.write();
    weights.write();
    for (const Access& access : program.ops[id].accesses) {
      if (access.use == Use::read) continue;
      Content& content = walk.at(access);
      content.changed = walk.now;
      if (access.use != Use::write) continue;
      content.made = walk.now;
      content.role = access.role;
    }
  });
  weights.end();
}

}  // namespace zrt::runtime::verification

#include "runtime/verify/verifier.h"

#include "runtime/verify/checks.h"

namespace zrt::runtime {

void verify(const ProgramSet& set, const Layout& layout, const TierBytes& budgets) {
  using namespace verification;
  const core::OnPlace here({layout.device, nullptr});  // blocks' sizes depend on it
  const std::vector<PartOrder> orders = part_orders(layout);
  check_placement(set, budgets);
  for (const Program& program : set.programs) {
    check_references(set, program, layout);
    check_groups(set, program, layout);
    check_sizes(set, program, layout, orders);
  }
  const Families families(set, layout);
  for (const Program& program : set.programs) {
    check_memory(set, program);
    check_meaning(set, program, layout, orders, families);
    if (program.phase == "step") check_step(program, layout, orders);
    check_blocks(program, layout, orders);
  }
}

}  // namespace zrt::runtime

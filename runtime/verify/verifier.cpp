#include "runtime/verify/verifier.h"

#include "core/error.h"
#include "runtime/verify/borders.h"
#include "runtime/verify/checks.h"
#include "runtime/verify/context.h"

namespace zrt::runtime {
namespace verification {
namespace {

void check_all(const ProgramSet& set, const Layout& layout, const TierBytes& budgets) {
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
    if (program.phase == "step" || program.phase == "update") check_step(program, layout, orders);
    if (program.phase == "eval" || program.phase == "decode") check_borders(program, layout);
    check_blocks(program, layout, orders);
  }
}

}  // namespace
}  // namespace verification

void verify(const ProgramSet& set, const Layout& layout, const TierBytes& budgets) {
  const core::OnPlace here({layout.device, nullptr});  // blocks' sizes depend on it
  try {
    verification::check_all(set, layout, budgets);
  } catch (const verification::Fault& fault) {
    throw core::ProgramError(fault.what() + verification::context(set, layout, fault.place()));
  }
}

}  // namespace zrt::runtime

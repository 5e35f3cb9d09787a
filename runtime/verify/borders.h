// The borders of a pipeline's stage: the pair of ranks that a transfer over one goes to, and the check that it happens.
#pragma once
#include <string_view>

#include "runtime/program/layout.h"

namespace zrt::runtime::verification {

// The name of the group that a block's input or output, or the gradient of one, goes over where its block is at a
// border of the stage. Chunks of the first stage and the last are neighbours, too.
inline std::string_view border_link(const Layout& layout, Role role) {
  const bool before = role == Role::input || role == Role::d_input;
  const bool forward = role == Role::input || role == Role::output;
  const int stage = layout.stage.index;
  const bool wraps = before ? stage == 0 : stage + 1 == layout.stage.schedule.stages;
  const bool odd = (before ? stage - 1 : stage) % 2 != 0;
  return wraps ? wrap_name(forward) : link_name(odd, forward);
}

// Each output of a block at a border is sent once where blocks are run without training.
void check_borders(const Program& program, const Layout& layout);

}  // namespace zrt::runtime::verification

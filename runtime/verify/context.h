// The context of a fault's place: the operand, the ranks that have to combine it, and the ops beside it that share it.
#pragma once
#include <optional>
#include <string>

#include "runtime/program/layout.h"
#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {

// "Operand: 'grad of h.0' of unit 'h.0', summed over data (group 'dp'). Neighbours: 'recompute h.0' and
// 'backward h.0' in front, 'norm h.0' behind." Holds for programs that no check has accepted yet.
std::string context(const ProgramSet& set, const Layout& layout, const FaultPlace& place);

// "'recompute h.0' and 'backward h.0' in front, 'norm h.0' behind": the nearest ops of other names, in program order,
// that share the buffer or the unit, or else the lane, which is that of the op there where none is given.
std::string neighbours(const ProgramSet& set, const FaultPlace& place, std::optional<uint8_t> lane = {});

}  // namespace zrt::runtime::verification

// The operand of an op, and the ranks that combine it: both are derived from the roles of its buffer in all programs,
// the axes of its unit and the seam of its port.
#pragma once
#include <string>

#include "runtime/program/layout.h"
#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {

// The place with a program, buffer and unit where those follow from what is known of it.
FaultPlace completed(const ProgramSet& set, const Layout& layout, FaultPlace place);

// "'grad of h.0' of unit 'h.0', summed over data (group 'dp')", of a completed place.
std::string operand(const ProgramSet& set, const Layout& layout, const FaultPlace& place);

}  // namespace zrt::runtime::verification

// What an op of a program works on, and over which ranks that is combined: derived from the roles of its buffer in all
// programs, the axes of its unit and the seam of its port.
#pragma once
#include <string>

#include "runtime/program/layout.h"
#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {

// The place with a program, buffer and unit where those follow from what is known of it.
Place completed(const ProgramSet& set, const Layout& layout, Place place);

// "'grad of h.0' of unit 'h.0', summed over data (group 'dp')", of a completed place.
std::string operand(const ProgramSet& set, const Layout& layout, const Place& place);

}  // namespace zrt::runtime::verification

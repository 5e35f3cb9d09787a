// The programs of a plan as text (docs/program.md).
#pragma once
#include <string>

#include "runtime/plan/plan.h"

namespace zrt::runtime {

// Lists the finished programs of each stage, with the buffers that they use; with `after`, what they are behind that
// pass. They are those of one phase, or with "" of all. Throws ConfigError for a pass that there is not, or that this
// plan has no use for, and for a phase that it does not have.
std::string program_listing(const Plan& plan, const std::string& after, const std::string& phase);

}  // namespace zrt::runtime

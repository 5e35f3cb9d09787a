// The pass "staging": gives each group that NCCL connects memory for its sums, so that the plan knows of it.
#pragma once
#include "runtime/passes/pass.h"

namespace zrt::runtime {

// Says that some group may hold ranks that do not read each other's memory.
bool leaves_reach(const Layout& layout);
// Adds a buffer that holds its bytes in all phases for each group that does and in which ops of the set communicate.
void add_staging(Compilation& compilation);

}  // namespace zrt::runtime

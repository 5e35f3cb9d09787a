// Live bytes of a tier over the time of a simulated or executed program.
#pragma once
#include <vector>

#include "runtime/plan/simulator.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

struct MemoryPoint {
  double seconds = 0;  // from here until the next point
  core::CategoryBytes categories{};
  OpId op = 0;  // that starts or ends here
};

// `timeline` holds every execution of the program, in program order. A buffer lives from the start of the op that
// defines it to the end of the last one that uses it before the next definition; buffers with several slots and kept
// ones as memory_plan.h says. Points come in the order of time, at most one for each instant.
std::vector<MemoryPoint> memory_over_time(const ProgramSet& set, const Program& program,
                                          const std::vector<SimulatedOp>& timeline, core::Tier tier);

}  // namespace zrt::runtime

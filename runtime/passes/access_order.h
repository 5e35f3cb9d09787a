// Finds the waits between lanes that reads and writes of buffers need.
#pragma once
#include "runtime/program/program.h"

namespace zrt::runtime {

// Adds to each op of a program the waits its reads and writes need beyond what lanes and waits that it has already
// order. Slots of a buffer that a repeated segment takes in turns come round again: once a whole round has added no
// wait, none of the turns that follow does.
void order_accesses(Program& program, const ProgramSet& set);

}  // namespace zrt::runtime

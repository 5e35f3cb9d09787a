// A program as text: one op a line, for people and for tests that compare what a pass has made of it (docs/program.md).
#pragma once
#include <string>

#include "runtime/program/program.h"

namespace zrt::runtime {

// The segments with how often they run, and of each op its number, lane, name, the buffers it touches, and the numbers
// of the ops that it waits for. Buffers are named with their slot where they have several, and with what changes from
// turn to turn of a repeated segment: "saved of h.0[1+2i]". Where chunks share a buffer of m microbatches, "saved of
// h.0 and h.4[slot of 10+2i]" is the slot that its table has at chunk × m + microbatch = 10 + 2i. Ends with a newline.
std::string program_text(const ProgramSet& set, const Program& program);

// The buffers that the programs of this phase touch, or with "" all programs: tier, bytes and slots, offset, how long
// the contents live, category. In the order of their first use.
std::string buffers_text(const ProgramSet& set, const std::string& phase);

}  // namespace zrt::runtime

// The training loss of a run as one line of text for a terminal.
#pragma once
#include <string>

#include "runtime/report/run_data.h"

namespace zrt::runtime::report {

// The loss of the first step, a bar for each of `width` stretches of steps (its height is the mean loss of the stretch
// between the smallest and the largest mean), and the loss of the last step; then the held-out loss where there is one.
// A stretch without a finite loss is a blank. Fewer steps have fewer bars; a run without steps has an empty line.
std::string curve_line(const RunData& run, size_t width = 48);

}  // namespace zrt::runtime::report

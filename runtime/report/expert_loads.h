// Loads of experts over the last steps that a run has logged.
#pragma once
#include <string>
#include <vector>

#include "runtime/report/run_data.h"

namespace zrt::runtime::report {

struct ExpertLoads {
  struct Layer {
    int64_t layer = 0;
    std::vector<double> shares;  // by expert: of what each would have if all had as much
    double dropped = 0;          // share of the picks
    size_t least = 0, most = 0;  // experts
  };
  int64_t first = 0, last = 0, steps = 0;  // the first and the last of these, and how many
  std::vector<Layer> layers;
};

// The sum of the last steps that are of the same layers and experts, at most of so many; no layers where there is none.
ExpertLoads sum_loads(const RunData& run, size_t steps = 10);

// "experts over steps 10 to 50: between 0.41 (layer 3, expert 2) and 2.7 (layer 1, expert 5) of an even load"; "" for a
// run without such steps.
std::string loads_line(const RunData& run);

}  // namespace zrt::runtime::report

// Groups of parameters with a weight decay and a learning rate of their own, such as biases and gains that do not
// decay. A unit holds parameters of one group alone, so that an update has one of each.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "optimizer/optimizer.h"

namespace zrt::optimizer {

struct ParamGroup {
  std::vector<std::string> match;      // names of parameters, as fnmatch(3) has them
  std::optional<double> weight_decay;  // in place of the optimizer's
  double lr_scale = 1;                 // multiplies the step's learning rate
};

// Parameters belong to the first group that matches, numbered from 1, and else to the optimizer as it is, number 0.
OptimizerPtr make_grouped(const OptimizerPtr& rest, std::vector<ParamGroup> groups);

}  // namespace zrt::optimizer

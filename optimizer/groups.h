// Groups of parameters with a weight decay and a learning rate of their own, such as biases and gains that do not
// decay. A unit holds parameters of one group alone, so that an update has one of each.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optimizer/optimizer.h"

namespace zrt::optimizer {

struct ParamGroup {
  std::vector<std::string> match;      // names of parameters, in which * stands for any run of characters
  std::optional<double> weight_decay;  // in place of the optimizer's
  double lr_scale = 1;                 // multiplies the step's learning rate
};

// Parameters belong to the first group that matches, and else to the optimizer as it is.
OptimizerPtr make_grouped(const OptimizerPtr& rest, std::vector<ParamGroup> groups);

bool matches(std::string_view pattern, std::string_view name);

}  // namespace zrt::optimizer

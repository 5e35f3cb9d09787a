// Groups of parameters with a weight decay, a learning rate or an optimizer of their own, such as biases and gains that
// do not decay. A unit holds parameters of one group alone, so that an update has one of each.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "optimizer/optimizer.h"

namespace zrt::optimizer {

struct ParamGroup {
  std::vector<std::string> match;      // names of parameters, as fnmatch(3) has them
  std::optional<double> weight_decay;  // in place of the optimizer's
  double lr_scale = 1;                 // multiplies the step's learning rate
  OptimizerPtr optimizer = nullptr;    // null: that of the rest
  std::optional<bool> trainable = {};  // false: training leaves them as they are
  bool takes(const models::Param& param) const;
};

// The first group that takes a parameter; null: none does.
const ParamGroup* find_group(std::span<const ParamGroup> groups, const models::Param& param);

// The names of parameters that no training changes: those whose group says so, and where the model has adapters, all
// others that no group says to train.
std::set<std::string, std::less<>> frozen_names(std::span<const ParamGroup> groups, const models::Model& model);

// Parameters belong to the first group that takes them, and else to the optimizer as it is. Throws core::ConfigError
// for more than most_members optimizers.
OptimizerPtr make_grouped(const OptimizerPtr& rest, const std::vector<ParamGroup>& groups);

// Two optimizers as one: parameters that `takes` names are `some`'s, all others `rest`'s.
using Takes = std::function<bool(const models::Param&, bool hidden)>;
OptimizerPtr make_split(const OptimizerPtr& rest, const OptimizerPtr& some, const Takes& takes);

}  // namespace zrt::optimizer

// The meaning of the keys optimizer and parameter_groups, written down a second time: plain loops in fp64 over whole
// tensors, which read the JSON and know nothing of units, shards, groups or members.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zrt::testing {

using Values = std::vector<double>;

struct PlainTensor {
  std::string name;
  std::vector<int64_t> shape;
  bool hidden = false;  // neither of the first nor of the last block
  Values weights;
};

// The rule that updates one tensor.
struct PlainRule {
  std::string type;  // in lower case; of Muon's two, "muon" or "adamw"
  nlohmann::json params;
  double rate = 0, decay = 0;
  size_t states() const;  // values that it keeps for each element
};

// Returns the rule of a tensor in a configuration with "optimizer" and perhaps "parameter_groups".
PlainRule plain_rule(const nlohmann::json& config, const PlainTensor& tensor);

class PlainOptimizer {
 public:
  PlainOptimizer(const nlohmann::json& config, const std::vector<PlainTensor>& tensors);
  void step(const std::map<std::string, Values>& gradients);
  const Values& weights(const std::string& name) const { return tensors_.at(name).weights; }

 private:
  struct Tensor {
    PlainRule rule;
    std::vector<int64_t> shape;
    Values weights, first, second, rows, columns;
  };
  void update(Tensor& tensor, const Values& gradient) const;
  std::map<std::string, Tensor> tensors_;
  int64_t steps_ = 0;
};

}  // namespace zrt::testing

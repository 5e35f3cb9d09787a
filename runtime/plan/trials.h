// Changed configurations, planned far enough to say whether they fit.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "runtime/plan/limits.h"

namespace zrt::runtime {

using Changes = std::vector<std::pair<std::string, std::string>>;  // key of the configuration, or "ranks"; new value

class Trials {
 public:
  // All are kept by reference; `cluster` may be null, where `limits` are those of the configuration.
  Trials(const Config& config, const models::Model& model, const std::vector<std::string>& phases, const Limits& limits,
         const Cluster* cluster)
      : config_(config), model_(model), phases_(phases), limits_(limits), cluster_(cluster) {}

  // Both throw ConfigError for what no run could be.
  Config changed(const Changes& changes, int ranks) const;
  // Bytes of all tiers above their limits, by the placement that needs the least memory, whatever it costs a step: of
  // the stage that lacked most before, and where that fits of the one that lacks most now.
  double excess(const Changes& changes, int ranks);
  bool fits(const Changes& changes, int ranks) { return excess(changes, ranks) == 0; }
  // The same with all that a plan tries, which takes longer: some fit that excess() gives up.
  double excess_as_planned(const Changes& changes, int ranks) const;
  // Looks at the stage that lacked most before alone.
  bool may_fit(const Changes& changes, int ranks);

  models::Model model_of(const Config& config) const;

 private:
  double excess(const Changes& changes, int ranks, bool of_one);

  const Config& config_;
  const models::Model& model_;
  const std::vector<std::string>& phases_;
  const Limits& limits_;
  const Cluster* cluster_;
  std::map<size_t, size_t> fullest_;  // by number of stages: the one that lacked most, at first the first
};

}  // namespace zrt::runtime

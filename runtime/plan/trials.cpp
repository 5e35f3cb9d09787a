#include "runtime/plan/trials.h"

#include <algorithm>

#include "runtime/plan/fit.h"
#include "runtime/plan/setup.h"

namespace zrt::runtime {

// Other degrees need blocks that know of them, and other sizes other blocks.
models::Model Trials::model_of(const Config& config) const {
  const bool same = config.model.degrees == model_.degrees && config.model.sequence == model_.sequence;
  return same ? model_ : config.model.make();
}

Config Trials::changed(const Changes& changes, int ranks) const {
  std::vector<std::string> sets;
  for (const auto& [key, value] : changes) {
    if (key != "ranks") sets.push_back(key + "=" + value);
  }
  Config made = reconfigured(config_, sets, ranks);
  return cluster_ != nullptr ? on_cluster(in_reach(std::move(made), 0), cluster_) : made;
}

double Trials::excess(const Changes& changes, int ranks) {
  return excess(changes, ranks, false);
}

double Trials::excess_as_planned(const Changes& changes, int ranks) const {
  const Config config = changed(changes, ranks);
  const Limits limits = cluster_ ? memory_limits(config, cluster_) : limits_;
  const std::vector<Layout> layouts = make_layouts(config, model_of(config));
  const FitRequest request{phases_, limits, memory_limits(config, nullptr), {}, true, false};
  return limits.excess(peak_bytes(fit(config, layouts, request).stages));
}

bool Trials::may_fit(const Changes& changes, int ranks) {
  return excess(changes, ranks, true) == 0;
}

double Trials::excess(const Changes& changes, int ranks, bool of_one) {
  const Config config = changed(changes, ranks);
  // A host gives each of its ranks a share that depends on their number.
  const Limits limits = cluster_ ? memory_limits(config, cluster_) : limits_;
  const std::vector<Layout> layouts = make_layouts(config, model_of(config));
  // States that fit nowhere need not be compiled.
  const bool trains = std::find(phases_.begin(), phases_.end(), "step") != phases_.end();
  const uint64_t missing = trains ? missing_bytes(config, layouts, limits) : 0;
  if (missing > 0) return static_cast<double>(missing);
  const FitRequest request{phases_, limits, memory_limits(config, nullptr), {}, false, false};
  const auto fitted_stages = [&](const std::vector<Layout>& some) { return fit(config, some, request).stages; };
  size_t& fullest = fullest_[layouts.size()];
  if (layouts.size() > 1) {
    const double excess = limits.excess(peak_bytes(fitted_stages({layouts[fullest]})));
    if (excess > 0 || of_one) return excess;
  }
  const std::vector<Compiled> stages = fitted_stages(layouts);
  const auto excess_of = [&](const Compiled& stage) { return limits.excess(peak_bytes(stage.plan)); };
  const auto most = std::max_element(stages.begin(), stages.end(),
                                     [&](const Compiled& a, const Compiled& b) { return excess_of(a) < excess_of(b); });
  fullest = static_cast<size_t>(most - stages.begin());
  return excess_of(*most);
}

}  // namespace zrt::runtime

// Seconds and bytes of a choice, quickly and roughly: from programs of few layers on the tensor-parallel ranks alone,
// and on those that have other experts each, whose times and bytes grow by the layer, and closed forms for pipelines
// and data-parallel ranks.
#pragma once
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/cost/cluster.h"
#include "runtime/search/choice.h"

namespace zrt::runtime::search {

// A quantity of a layer and of what is not in layers: the embedding and the head.
struct PerLayer {
  double layer = 0, rest = 0;
  double of(double layers) const { return layers * layer + rest; }
};

struct Estimate {
  double seconds = 0;       // of a step
  double device_bytes = 0;  // of a rank of the first stage
};

class Estimator {
 public:
  Estimator(const Task& task, const Cluster& cluster)
      : task_(task), cluster_(cluster), layers_(static_cast<double>(task.config.model.layers)) {}
  // None where the choice is refused.
  std::optional<Estimate> of(const Choice& choice);

 private:
  // Describes one microbatch on tensor-parallel ranks that have all states.
  struct Block {
    PerLayer seconds, transient;  // forward and backward; activations, and in `rest` what does not grow with layers
  };
  struct States {
    PerLayer weights, grads, optimizer;
    double update_seconds = 0;  // of a layer
  };
  struct Measured;
  // The ranks that a program is made for: those that share blocks, and those that have other experts each.
  using Sharing = std::pair<int, int>;
  std::optional<Measured> measure(Sharing ranks, int64_t micro, const std::string& recompute, int layers,
                                  int microbatches) const;
  const std::optional<States>& states(Sharing ranks);
  const std::optional<Block>& block(Sharing ranks, int64_t micro, const std::string& recompute);
  double seconds_among_data(double bytes, const Choice& choice, bool sums) const;

  const Task& task_;
  const Cluster& cluster_;
  const double layers_;
  std::map<Sharing, std::optional<States>> states_;
  std::map<std::tuple<Sharing, int64_t, std::string>, std::optional<Block>> blocks_;
};

}  // namespace zrt::runtime::search

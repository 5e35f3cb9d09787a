#include "runtime/search/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "optimizer/zero.h"
#include "runtime/plan/fit.h"
#include "runtime/plan/setup.h"
#include "runtime/plan/simulator.h"

namespace zrt::runtime::search {
namespace {

using optimizer::Extent;

// Programs are of so many layers: more than one, since what comes ahead of its use lies beside the layer before.
constexpr int few = 2, more = 4;

}  // namespace

struct Estimator::Measured {
  double seconds = 0, weights = 0, grads = 0, optimizer = 0, transient = 0;
};

std::optional<Estimator::Measured> Estimator::measure(Sharing ranks, int64_t micro, const std::string& recompute,
                                                      int layers, int microbatches) const {
  const auto [tensor, expert] = ranks;
  try {
    const Settings sets{fmt::format("model.layers={}", layers),
                        fmt::format("train_batch_size={}", micro * microbatches * expert),
                        fmt::format("train_micro_batch_size_per_gpu={}", micro),
                        fmt::format("parallel.tensor={}", tensor),
                        fmt::format("parallel.expert={}", expert),
                        fmt::format("parallel.sequence={}", tensor > 1),
                        "memory.recompute=" + recompute,
                        "zero_optimization.stage=0",
                        "zero_optimization.overlap_comm=true"};
    const Config config = reconfigured(task_.config, sets, tensor * expert);
    const models::Model model = config.model.make();
    FitRequest request{{"init", "step"}, {}, {}, {}, true, false};
    const Fitted fitted = fit(config, make_layouts(config, model), request);
    const TierPlan& device = fitted.stages.front().plan.device();
    const auto bytes = [&](core::Category c) {
      return static_cast<double>(device.model_states[static_cast<size_t>(c)]);
    };
    Measured found;
    found.seconds = simulate_step(fitted.stages, cluster_).front().seconds;
    found.weights = bytes(core::Category::weights), found.grads = bytes(core::Category::grads);
    found.optimizer = bytes(core::Category::master) + bytes(core::Category::moment1) + bytes(core::Category::moment2);
    found.transient = static_cast<double>(device.peak_bytes) - found.weights - found.grads - found.optimizer;
    return found;
  } catch (const core::ConfigError&) {
    return std::nullopt;
  }
}

const std::optional<Estimator::States>& Estimator::states(Sharing ranks) {
  const auto [found, added] = states_.try_emplace(ranks);
  if (!added) return found->second;
  const auto once = measure(ranks, 1, "full", few, 1), twice = measure(ranks, 1, "full", few, 2);
  const auto deep = measure(ranks, 1, "full", more, 1), deep_twice = measure(ranks, 1, "full", more, 2);
  if (!once || !twice || !deep || !deep_twice) return found->second;
  const auto line = [&](double Measured::*field) {
    const double layer = ((*deep).*field - (*once).*field) / (more - few);
    return PerLayer{layer, (*once).*field - few * layer};
  };
  States states{line(&Measured::weights), line(&Measured::grads), line(&Measured::optimizer), 0};
  // A step of a microbatch more has as many layers' forwards and backwards more, and no update.
  const double layer = ((deep_twice->seconds - deep->seconds) - (twice->seconds - once->seconds)) / (more - few);
  states.update_seconds = std::max(0.0, (deep->seconds - once->seconds) / (more - few) - layer);
  found->second = states;
  return found->second;
}

const std::optional<Estimator::Block>& Estimator::block(Sharing ranks, int64_t micro, const std::string& recompute) {
  const auto [found, added] = blocks_.try_emplace({ranks, micro, recompute});
  if (!added) return found->second;
  const auto& states = this->states(ranks);
  if (!states) return found->second;
  const auto shallow = measure(ranks, micro, recompute, few, 1), deep = measure(ranks, micro, recompute, more, 1);
  if (!shallow || !deep) return found->second;
  Block block;
  const double layer = (deep->seconds - shallow->seconds) / (more - few);
  block.seconds = {layer - states->update_seconds, std::max(0.0, shallow->seconds - few * layer)};
  block.transient.layer = (deep->transient - shallow->transient) / (more - few);
  block.transient.rest = shallow->transient - few * block.transient.layer;
  found->second = block;
  return found->second;
}

// Once round the data-parallel ranks of a stage; a sum in the order of ranks instead goes from each of them to each.
double Estimator::seconds_among_data(double bytes, const Choice& choice, bool sums) const {
  const core::Mesh mesh(task_.ranks, choice.tensor, choice.pipeline);
  const HostSpread at =
      host_spread(mesh.groups(core::data_axes), task_.ranks, cluster_.ranks_per_host, cluster_.distribution);
  if (at.ranks == 1) return 0;
  const double share = bytes / at.ranks;
  const double inside = share * (at.ranks - 1) / cluster_.inside_host.bytes_per_second;
  if (at.hosts == 1 || !cluster_.between_hosts) return inside;
  const bool ring = !sums || task_.config.parallel.fast_sums;
  const double through = at.groups * share * (at.ranks - at.local) * (ring ? 1 : at.local);
  return std::max(inside, through / cluster_.between_hosts->bytes_per_second);
}

std::optional<Estimate> Estimator::of(const Choice& choice) {
  const auto& states = this->states({choice.tensor, choice.expert});
  const auto& block = this->block({choice.tensor, choice.expert}, choice.micro, choice.recompute);
  if (!states || !block) return std::nullopt;
  const double stages = choice.pipeline, layers = std::ceil(layers_ / stages);
  const auto microbatches = static_cast<double>(choice.microbatches(task_));
  const double data = choice.data(task_);
  const double ends = stages > 1 ? 0.5 : 1;  // of what lies outside of layers, on the first stage

  // The cut by time evens out stages, but not within a layer.
  double turn = std::max(layers * block->seconds.layer, block->seconds.of(layers_) / stages);
  // Experts are spread over the ranks that have others each, and their states are shared by fewer.
  const auto& alone = this->states({choice.tensor, 1});
  if (!alone) return std::nullopt;
  const auto of_experts = [&](const PerLayer& one, const PerLayer& spread) {
    const double less = choice.expert - 1.0;  // times the part of a rank
    return choice.expert > 1 ? PerLayer{(one.layer - spread.layer) / less, (one.rest - spread.rest) / less}
                             : PerLayer{};
  };
  const double weights = layers * states->weights.layer + ends * states->weights.rest;
  const double gather = seconds_among_data(weights, choice, false), sum = seconds_among_data(weights, choice, true);
  // Each microbatch gathers for its forward and its backward, and sums. Some of that is seen even where computation is
  // longer: the first and the last layer have nothing to hide behind.
  const optimizer::ZeroStrategy zero = optimizer::zero_strategy(choice.stage);
  const auto sharded = [](Extent extent) { return extent == Extent::shard; };
  const double traffic = (sharded(zero.weights) ? 2 * gather : 0) + (sharded(zero.grads) ? sum : 0);
  turn = std::max(turn, traffic) + 0.5 * traffic;
  const double bubble = choice.schedule == "zb-h1" ? 1.0 / 3 : 1.0 / choice.chunks;
  Estimate estimate;
  estimate.seconds = turn * (microbatches + (stages - 1) * bubble);
  estimate.seconds += layers * states->update_seconds / (sharded(zero.states) ? data : 1);
  if (!sharded(zero.grads)) estimate.seconds += std::max((sum + gather) / layers, sum + gather - 0.6 * turn);

  // The first stage has most microbatches on their way.
  double alive = std::min(stages, microbatches);
  if (choice.chunks > 1) alive = std::min(microbatches, stages * (1 + (stages - 1) / (stages * choice.chunks)));
  const auto kept = [&](PerLayer States::*kind, Extent extent) {
    const PerLayer &bytes = (*states).*kind, experts = of_experts((*alone).*kind, bytes);
    const auto held = [&](const PerLayer& part) { return layers * part.layer + ends * part.rest; };
    if (!sharded(extent)) return held(bytes);
    return (held(bytes) - held(experts)) / data + held(experts) / (data / choice.expert);
  };
  estimate.device_bytes = kept(&States::weights, zero.weights) + kept(&States::grads, zero.grads) +
                          kept(&States::optimizer, zero.states) + alive * layers * block->transient.layer +
                          block->transient.rest;
  return estimate;
}

}  // namespace zrt::runtime::search

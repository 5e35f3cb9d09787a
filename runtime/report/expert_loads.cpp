#include "runtime/report/expert_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace zrt::runtime::report {
namespace {

bool same_experts(const LoadRow& a, const LoadRow& b) {
  return a.layers == b.layers && std::equal(a.picked.begin(), a.picked.end(), b.picked.begin(), b.picked.end(),
                                            [](const auto& x, const auto& y) { return x.size() == y.size(); });
}

double picks_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

ExpertLoads sum_loads(const RunData& run, size_t steps) {
  ExpertLoads loads;
  if (run.loads.empty()) return loads;
  const LoadRow& newest = run.loads.back();
  LoadRow sum = newest;
  loads.first = loads.last = newest.step, loads.steps = 1;
  for (size_t i = run.loads.size() - 1; i-- > 0 && static_cast<size_t>(loads.steps) < steps;) {
    const LoadRow& row = run.loads[i];
    if (!same_experts(row, newest)) break;
    loads.first = row.step, ++loads.steps;
    for (size_t l = 0; l < sum.layers.size(); ++l) {
      for (size_t e = 0; e < sum.picked[l].size(); ++e) sum.picked[l][e] += row.picked[l][e];
      sum.dropped[l] += row.dropped[l];
    }
  }
  for (size_t l = 0; l < sum.layers.size(); ++l) {
    ExpertLoads::Layer layer{sum.layers[l], sum.picked[l], 0, 0, 0};
    const double picks = picks_of(layer.shares), even = picks / static_cast<double>(layer.shares.size());
    if (!(picks > 0)) continue;
    for (double& share : layer.shares) share /= even;
    layer.dropped = sum.dropped[l] / picks;
    const auto [least, most] = std::minmax_element(layer.shares.begin(), layer.shares.end());
    layer.least = static_cast<size_t>(least - layer.shares.begin());
    layer.most = static_cast<size_t>(most - layer.shares.begin());
    loads.layers.push_back(std::move(layer));
  }
  return loads;
}

std::string loads_line(const RunData& run) {
  const ExpertLoads loads = sum_loads(run);
  if (loads.layers.empty()) return "";
  using Layer = ExpertLoads::Layer;
  const auto least = [](const Layer& layer) { return layer.shares[layer.least]; };
  const auto most = [](const Layer& layer) { return layer.shares[layer.most]; };
  const Layer& low = *std::min_element(loads.layers.begin(), loads.layers.end(),
                                       [&](const Layer& a, const Layer& b) { return least(a) < least(b); });
  const Layer& high = *std::max_element(loads.layers.begin(), loads.layers.end(),
                                        [&](const Layer& a, const Layer& b) { return most(a) < most(b); });
  return fmt::format(
      "experts over steps {} to {}: between {:.3g} (layer {}, expert {}) and {:.3g} (layer {}, expert {}) of an even "
      "load",
      loads.first, loads.last, least(low), low.layer, low.least, most(high), high.layer, high.most);
}

}  // namespace zrt::runtime::report

#include <fmt/format.h>

#include "runtime/report/draw/heat_map.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/expert_loads.h"
#include "runtime/report/sections.h"

namespace zrt::runtime::report {

Parts experts_part(const RunData& run) {
  const ExpertLoads loads = sum_loads(run);
  if (loads.layers.empty()) return {};
  draw::HeatMap map;
  map.title = loads.steps == 1 ? fmt::format("Load of each expert (1: even) in step {}", loads.last)
                               : fmt::format("Load of each expert (1: even) in {} logged steps, {} to {}", loads.steps,
                                             loads.first, loads.last);
  map.x_name = "expert";
  std::vector<std::vector<std::string>> rows;
  for (const ExpertLoads::Layer& layer : loads.layers) {
    map.rows.push_back(fmt::format("layer {}", layer.layer));
    map.values.push_back(layer.shares);
    rows.push_back({std::to_string(layer.layer),
                    fmt::format("{:.3g} (expert {})", layer.shares[layer.least], layer.least),
                    fmt::format("{:.3g} (expert {})", layer.shares[layer.most], layer.most),
                    fmt::format("{:.3g} %", 100 * layer.dropped)});
  }
  return {draw::draw_heat_map(map), draw::table({"layer", "least load", "largest load", "picks dropped"}, rows)};
}

}  // namespace zrt::runtime::report

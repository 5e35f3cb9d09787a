// The result of a search for scripts; docs/plan.md has its keys.
#include <nlohmann/json.hpp>

#include "runtime/search/search.h"

namespace zrt::runtime::search {

using Json = nlohmann::ordered_json;

std::string search_json(const Result& result, const Task& task, const Cluster& cluster, const Price& price) {
  Json found = Json::array();
  const Config& config = task.config;
  const int ranks = task.ranks;
  const double tokens = static_cast<double>(config.batch.train * config.model.sequence);
  for (const Found& each : result.found) {
    Json keys = Json::object();
    for (const auto& [key, value] : keys_of(each.choice, task)) {
      const Json json = Json::parse(value, nullptr, false);
      keys[key] = json.is_discarded() ? Json(value) : json;
    }
    Json peaks;
    for (size_t t = 0; t < core::tier_count; ++t) peaks[std::string(core::tier_names[t])] = each.peaks[t];
    const RunCost cost = run_cost(each.seconds, tokens, ranks, price, cluster);
    found.push_back({{"keys", keys},
                     {"seconds_per_step", each.seconds},
                     {"busy_seconds", each.busy_seconds},
                     {"exposed_comm_seconds", each.comm_seconds},
                     {"exposed_io_seconds", each.io_seconds},
                     {"idle_seconds", each.idle_seconds()},
                     {"planned_peak_bytes", peaks},
                     {"gpu_hours", price.tokens > 0 ? Json(cost.gpu_hours) : Json()},
                     {"cost", price.tokens > 0 && cost.money ? Json(*cost.money) : Json()}});
  }
  return Json{{"cluster", cluster.name},
              {"ranks", ranks},
              {"tokens_per_step", config.batch.train * config.model.sequence},
              {"fixed", task.fixed},
              {"considered", result.considered},
              {"compiled", result.compiled},
              {"offloads", result.offloads},
              {"found", found}}
      .dump(1);
}

}  // namespace zrt::runtime::search

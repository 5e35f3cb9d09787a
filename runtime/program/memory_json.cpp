#include "runtime/program/memory_json.h"

namespace zrt::runtime {

using Json = nlohmann::ordered_json;

Json tier_json(const TierPlan& plan, std::optional<uint64_t> measured) {
  Json json{{"planned_peak_bytes", plan.peak_bytes}, {"measured_peak_bytes", measured ? Json(*measured) : Json()}};
  if (plan.peak_bytes == 0) return json;
  json["peak_op"] = plan.peak_op;
  json["peak_phase"] = plan.peak_phase;
  json["live_peak_bytes"] = plan.live_peak_bytes;
  for (size_t c = 0; c < core::category_count; ++c) {
    json["categories"][std::string(core::category_names[c])] = plan.categories[c];
  }
  return json;
}

}  // namespace zrt::runtime

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/ops/spec.h"
#include "runtime/plan/group_summary.h"
#include "runtime/plan/group_ways.h"
#include "runtime/plan/plan.h"
#include "runtime/program/memory_json.h"

namespace zrt::runtime {
namespace {

using Json = nlohmann::ordered_json;

// Up to so many ranks are listed one by one, as in memory.json; more as ranges of equal ones.
constexpr int listed_ranks = 64;

Json by_tier(const TierBytes& bytes) {
  Json json;
  for (size_t t = 0; t < core::tier_count; ++t) json[std::string(core::tier_names[t])] = bytes[t];
  return json;
}

Json by_kind(const CommBytes& bytes) {
  Json json = Json::object();
  for (const auto& [kind, count] : bytes) json[std::string(op_kind_name(kind))] = count;
  return json;
}

Json ranks_json(const StagePlan& stage, int first, int last) {
  const MemoryPlan& plan = stage.compiled.plan;
  Json json{{"rank", first}, {"last_rank", last}, {"stage", stage.compiled.layout.stage.index}};
  for (size_t t = 0; t < core::tier_count; ++t) {
    json["tiers"][std::string(core::tier_names[t])] = tier_json(plan.tiers[t], std::nullopt);
  }
  uint64_t states = 0;
  for (const core::Category category : {core::Category::weights, core::Category::grads, core::Category::master,
                                        core::Category::moment1, core::Category::moment2}) {
    const auto c = static_cast<size_t>(category);
    states += plan.device().model_states[c];
    TierBytes homes{};
    for (size_t t = 0; t < core::tier_count; ++t) homes[t] = plan.tiers[t].model_states[c];
    json["homes"][std::string(core::category_names[c])] = by_tier(homes);
  }
  json["model_state_bytes"] = states;
  json["packing_overhead"] = plan.device().packing_overhead();
  for (const PhasePeak& phase : stage.phases) {
    json["phases"][phase.phase] = {{"live_peak_bytes", phase.live_bytes}, {"peak_op", phase.op}};
  }
  return json;
}

// A change as it would stand in the configuration.
Json change_json(const std::string& value) {
  const Json json = Json::parse(value, nullptr, false);
  return json.is_discarded() ? Json(value) : json;
}

Json suggestion_json(const Suggestion& suggestion) {
  Json json{{"changes", Json::object()}};
  for (const auto& [key, value] : suggestion.changes) json["changes"][key] = change_json(value);
  json["planned_peak_bytes"] = by_tier(suggestion.peaks);
  json["comm_bytes"] = suggestion.comm_bytes;
  json["seconds_per_step"] = suggestion.seconds_per_step ? Json(*suggestion.seconds_per_step) : Json();
  return json;
}

Json reserved_json(const Plan& plan) {
  Json json = Json::object();
  if (!plan.cluster) return json;
  for (const Reserved::Part& part : plan.cluster->reserved.parts) json[part.name] = part.bytes;
  return json;
}

Json pipeline_json(const Plan& plan) {
  const Stage& any = plan.layout().stage;
  Json stages = Json::array();
  for (const StagePlan& stage : plan.stages) {
    const models::Model& model = *stage.compiled.layout.model;
    Json blocks = Json::array();
    for (size_t b = 0; b < model.blocks.size(); ++b) blocks.push_back(model.whole_number(b));
    stages.push_back({{"blocks", blocks},
                      {"parameters", model.parameters()},
                      {"busy_seconds", stage.step ? Json(stage.step->busy_seconds.front()) : Json()},
                      {"idle_share", stage.step ? Json(stage.idle_share()) : Json()}});
  }
  return {{"schedule", any.pipelined() ? Json(schedule_name(any.schedule.kind)) : Json()},
          {"chunks", any.schedule.chunks},
          {"stages", stages}};
}

}  // namespace

std::string to_json(const Plan& plan, const Price& price) {
  Json ranks = Json::array(), limits, suggestions = Json::array();
  const bool listed = plan.layout().mesh.world() <= listed_ranks;
  for (const StagePlan& stage : plan.stages) {
    if (!listed) ranks.push_back(ranks_json(stage, stage.first, stage.last));
    for (int rank = stage.first; listed && rank <= stage.last; ++rank) ranks.push_back(ranks_json(stage, rank, rank));
  }
  for (size_t t = 0; t < core::tier_count; ++t) {
    const auto& limit = plan.limits.tiers[t];
    limits[std::string(core::tier_names[t])] = limit ? Json(limit->bytes) : Json();
  }
  for (const Suggestion& suggestion : plan.suggestions) suggestions.push_back(suggestion_json(suggestion));
  // The stage that computes longest waits for the fewest others.
  const StagePlan& busiest =
      *std::max_element(plan.stages.begin(), plan.stages.end(), [](const StagePlan& a, const StagePlan& b) {
        return a.step && b.step && a.step->busy_seconds.front() < b.step->busy_seconds.front();
      });
  const StagePlan& receiver =
      *std::max_element(plan.stages.begin(), plan.stages.end(),
                        [](const StagePlan& a, const StagePlan& b) { return total(a.comm) < total(b.comm); });
  const auto seconds = [&](double Simulation::*field) { return busiest.step ? Json((*busiest.step).*field) : Json(); };
  return Json{{"ranks", ranks},
              {"processes", Json::array()},
              {"parameters", plan.parameters},
              {"active_parameters", plan.active_parameters},
              {"parameter_groups", groups_json(plan)},
              {"pipeline", pipeline_json(plan)},
              {"comm_bytes", by_kind(receiver.comm)},
              {"cluster", plan.cluster ? Json(plan.cluster->name) : Json()},
              {"groups", group_ways_json(plan)},
              {"seconds_per_step", seconds(&Simulation::seconds)},
              {"exposed_comm_seconds", seconds(&Simulation::exposed_comm_seconds)},
              {"exposed_io_seconds", seconds(&Simulation::exposed_io_seconds)},
              {"tokens_per_step", plan.tokens_per_step()},
              {"run_cost", run_cost_json(plan, price)},
              {"drive_wear", drive_wear_json(plan)},
              {"saves", plan.saves.empty() ? Json() : Json(plan.saves)},
              {"limits", limits},
              {"reserved_bytes", plan.cluster ? Json(plan.cluster->reserved.bytes()) : Json()},
              {"reserved", reserved_json(plan)},
              {"fits", plan.fits},
              {"suggestions", suggestions}}
      .dump(1);
}

}  // namespace zrt::runtime

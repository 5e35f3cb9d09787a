#include "runtime/plan/group_summary.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "optimizer/optimizer.h"

namespace zrt::runtime {
namespace {

struct GroupSummary {
  std::vector<std::string> names;
  int64_t elements = 0;
};

// Lists parameters by group, of the units that are trained or of those that are frozen.
std::map<uint32_t, GroupSummary> summarise(const Plan& plan, bool trained) {
  std::map<uint32_t, GroupSummary> groups;
  for (const StagePlan& stage : plan.stages) {
    for (const optimizer::Unit& unit : stage.compiled.layout.units.units) {
      if (unit.counted_elsewhere || unit.trained != trained) continue;
      for (const optimizer::UnitParam& place : unit.params) {
        for (int at = 0; at < place.param->places(); ++at) groups[unit.group].names.push_back(place.param->name_at(at));
        groups[unit.group].elements += place.param->elements_of_all();
      }
    }
  }
  return groups;
}

// Names the first three, and says that there are more.
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 3; ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > 3 ? ", …" : "");
}

}  // namespace

std::string groups_text(const Plan& plan) {
  const auto groups = summarise(plan, true), frozen = summarise(plan, false);
  if (groups.size() + frozen.size() < 2) return "";
  std::string text;
  const auto add = [&](const std::string& title, const GroupSummary& group) {
    text += fmt::format("  {}: {} tensor{}, {} elements: {}\n", title, group.names.size(),
                        group.names.size() == 1 ? "" : "s", group.elements, some_of(group.names));
  };
  for (const auto& [number, group] : groups) {
    const optimizer::GroupFacts facts = plan.layout().optimizer->facts(number);
    add(fmt::format("{}, weight decay {:g}, rate × {:g}", facts.optimizer, facts.weight_decay, facts.lr_scale), group);
  }
  for (const auto& [number, group] : frozen) add("frozen", group);
  return text;
}

nlohmann::ordered_json groups_json(const Plan& plan) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& [number, group] : summarise(plan, true)) {
    const optimizer::GroupFacts facts = plan.layout().optimizer->facts(number);
    json.push_back({{"optimizer", facts.optimizer},
                    {"weight_decay", facts.weight_decay},
                    {"lr_scale", facts.lr_scale},
                    {"elements", group.elements},
                    {"parameters", group.names}});
  }
  for (const auto& [number, group] : summarise(plan, false)) {
    json.push_back({{"optimizer", nullptr}, {"elements", group.elements}, {"parameters", group.names}});
  }
  return json;
}

}  // namespace zrt::runtime

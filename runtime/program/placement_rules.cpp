#include "runtime/program/placement_rules.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "optimizer/optimizer.h"

namespace zrt::runtime {
namespace {

using optimizer::Unit;

// The state kinds of the run's optimizer, of all units.
std::set<std::string> kinds_of(const Layout& layout) {
  std::set<std::string> kinds;
  for (const Unit& unit : layout.units.units) {
    for (const auto& state : layout.optimizer->states(unit)) kinds.insert(state.kind);
  }
  return kinds;
}

void check_layers(const LayerRange& range, const std::string& from, const Layout& layout) {
  const auto layers = static_cast<int64_t>(layer_count(*layout.model));
  if (range.second < layers) return;
  throw core::ConfigError(
      fmt::format("{}: there is no layer {}; the model has {} layers, counted from 0.", from, range.second, layers));
}

// One rule on its way through the units.
class Application {
 public:
  Application(const PlacementRule& rule, const Layout& layout, Placement& placement)
      : rule_(rule), layout_(layout), placement_(placement) {}

  void run() {
    if (!layout_.model->whole) check_names();  // a stage may lack a kind of state that others have
    if (rule_.layers) check_layers(*rule_.layers, rule_.from, layout_);
    const auto& units = layout_.units.units;
    int64_t all = 0, held = 0, elements = 0;
    // A share of states is one of what is trained.
    const auto counts = [&](const Unit& unit) { return unit.trained || names("weight"); };
    for (const Unit& unit : units) all += counts(unit) ? unit.parameters() : 0;
    for (size_t u = 0; u < units.size(); ++u) {
      if (!counts(units[u])) continue;
      if (static_cast<double>(held) >= rule_.share * static_cast<double>(all)) break;
      held += units[u].parameters();
      elements += units[u].extent(units[u].held.weights);
      if (elements > rule_.elements) break;
      if (matches(units[u])) move(units[u], placement_.units[u]);
    }
    if (names("activations")) move_activations();
    if (moved_ || !rule_.must_match || layout_.model->whole) return;
    throw core::ConfigError(
        rule_.from +
        (matched_ ? " names states that no unit it matches has: with fp32 weights there is no master, and "
                    "small or plain parameters may lack some kinds of state."
                  : " matches no parameter. Names are, for example, \"" + units.front().params.front().param->name +
                        "\" and \"" + units.back().params.back().param->name + "\"."));
  }

 private:
  bool names(std::string_view state) const {
    return std::find(rule_.states.begin(), rule_.states.end(), state) != rule_.states.end();
  }

  void check_names() const {
    const std::set<std::string> kinds = kinds_of(layout_);
    for (const std::string& state : rule_.states) {
      const bool general =
          state == "weight" || state == "grad" || state == "master" || state == "moments" || state == "activations";
      if (general || kinds.contains(state)) continue;
      std::string legal;
      for (const std::string& kind : kinds) legal += ", \"" + kind + "\"";
      throw core::ConfigError(rule_.from + " names the state \"" + state +
                              "\", which this run does not have; legal: \"weight\", \"grad\", \"master\", "
                              "\"moments\", \"activations\"" +
                              legal + ".");
    }
  }

  bool matches(const Unit& unit) {
    if (rule_.layers) {
      // A shared unit belongs to each of its users.
      const bool any = std::any_of(unit.blocks.begin(), unit.blocks.end(), [&](uint32_t block) {
        const auto number = static_cast<int64_t>(layout_.model->whole_number(block)) - 1;
        return number >= rule_.layers->first && number <= rule_.layers->second;
      });
      matched_ |= any;
      return any;
    }
    if (rule_.parameters.empty()) return matched_ = true;
    const auto like = [&](const optimizer::UnitParam& param) {
      return fnmatch(rule_.parameters.c_str(), param.param->name.c_str(), 0) == 0;
    };
    for (const optimizer::UnitParam& param : unit.params) require_alike(param);
    const auto alike = static_cast<size_t>(std::count_if(unit.params.begin(), unit.params.end(), like));
    if (alike == 0) return false;
    matched_ = true;
    if (alike == unit.params.size()) return true;
    const auto other = std::find_if_not(unit.params.begin(), unit.params.end(), like);
    throw core::ConfigError(fmt::format(
        "{} matches {} of the {} parameters of the unit '{}', for example not '{}', but a unit's states lie in one "
        "piece. Use a wider pattern, or a smaller memory.unit_bytes, which cuts parameters into more units.",
        rule_.from, alike, unit.params.size(), unit.name, other->param->name));
  }

  // Ranks run one program: experts that lie in one place on them have one tier.
  void require_alike(const optimizer::UnitParam& param) const {
    const auto like = [&](int place) {
      return fnmatch(rule_.parameters.c_str(), param.param->name_at(place).c_str(), 0) == 0;
    };
    for (int place = 1; place < param.param->places(); ++place) {
      if (like(place) == like(0)) continue;
      throw core::ConfigError(
          fmt::format("{} matches one of '{}' and '{}' alone, which with parallel.expert = {} ranks have in one place. "
                      "Use a pattern "
                      "that matches both or none.",
                      rule_.from, param.param->name, param.param->name_at(place), param.param->places()));
    }
  }

  void move(const Unit& unit, UnitTiers& tiers) {
    const auto to = [&](core::Tier& resident) {
      resident = rule_.tier;
      moved_ = true;
    };
    if (names("weight")) to(tiers.weight);
    if (names("grad") && unit.trained) to(tiers.grad);
    if (names("master") && layout_.has_master(unit)) to(tiers.master);
    const auto states = layout_.optimizer->states(unit);
    tiers.states.resize(states.size(), core::Tier::device);
    for (size_t kind = 0; kind < states.size(); ++kind) {
      if (names("moments") || names(states[kind].kind)) to(tiers.states[kind]);
    }
  }

  void move_activations() {
    for (size_t block : layer_blocks(*layout_.model)) {
      const auto number = static_cast<int64_t>(layer_of(*layout_.model, block));
      if (rule_.layers && (number < rule_.layers->first || number > rule_.layers->second)) continue;
      placement_.activations[block] = rule_.tier;
      moved_ = matched_ = true;
    }
  }

  const PlacementRule& rule_;
  const Layout& layout_;
  Placement& placement_;
  bool matched_ = false, moved_ = false;
};

// Calls visit(unit's number) for each unit of a layer.
template <class Visit>
void for_units_of_layers(const Layout& layout, Visit visit) {
  for (size_t block : layer_blocks(*layout.model)) {
    for (uint32_t u : layout.units.blocks[block]) visit(u);
  }
}

bool all_at_once(const MemoryConfig& memory, const Layout& layout) {
  return memory.sliding.layers == layer_count(*layout.model);
}

// Weights that slide wait on the host, where no rule says otherwise.
void begin_sliding(const MemoryConfig& memory, const Layout& layout, Placement& placement) {
  const size_t layers = layer_count(*layout.model);
  if (memory.sliding.layers > layers) {
    throw core::ConfigError(
        fmt::format("{}: the model has {} layers; legal are 1 to {}.", memory.sliding_from, layers, layers));
  }
  for_units_of_layers(layout, [&](uint32_t u) {
    placement.units[u].weight = core::Tier::host;
    if (layout.units.units[u].blocks.size() == 1 || all_at_once(memory, layout)) return;
    throw core::ConfigError(
        fmt::format("{}: layers share the parameters of unit '{}', which belong to no place among them. Give as many "
                    "layers as the model has, {}, or null.",
                    memory.sliding_from, layout.units.units[u].name, layers));
  });
}

void finish_sliding(const MemoryConfig& memory, const Layout& layout, Placement& placement) {
  if (all_at_once(memory, layout)) return;
  placement.sliding = memory.sliding;
  for_units_of_layers(layout, [&](uint32_t u) {
    const optimizer::Unit& unit = layout.units.units[u];
    if (placement.units[u].weight == core::Tier::device) {
      throw core::ConfigError(
          fmt::format("{}: memory.placement keeps the weights of unit '{}' on the device, where those of some layers "
                      "are to be at a time. Let it say \"host\" or \"nvme\" of them, or nothing.",
                      memory.sliding_from, unit.name));
    }
    if (layout.late_updates() && unit.trained) {
      throw core::ConfigError(fmt::format(
          "{}: with memory.update_when = \"next_forward\" the weights of unit '{}' would come to the device "
          "before they are updated. Set memory.update_when to \"after_norm\".",
          memory.sliding_from, unit.name));
    }
    if (!layout.early_updates() || !unit.trained || placement.units[u].update == core::Tier::host) return;
    throw core::ConfigError(
        fmt::format("{}: with memory.update_when = \"as_ready\" unit '{}' would be updated on the device between "
                    "blocks, beside the weights of layers that have room there. Set memory.update_when to "
                    "\"after_norm\", or memory.update to \"host\".",
                    memory.sliding_from, unit.name));
  });
}

void place_recompute(const MemoryConfig& memory, const Layout& layout, Placement& placement) {
  if (memory.recompute == Recompute::none) return;
  const size_t layers = layer_count(*layout.model);
  std::vector<LayerRange> ranges = memory.recompute_layers;
  if (ranges.empty() && layers > 0) ranges.emplace_back(0, static_cast<int64_t>(layers) - 1);
  placement.recompute.assign(layout.model->blocks.size(), Recompute::none);
  for (const LayerRange& range : ranges) {
    check_layers(range, memory.recompute_from, layout);
    for (size_t block : layer_blocks(*layout.model)) {
      const auto layer = static_cast<int64_t>(layer_of(*layout.model, block));
      if (layer >= range.first && layer <= range.second) placement.recompute[block] = memory.recompute;
    }
  }
}

}  // namespace

std::vector<size_t> layer_blocks(const models::Model& model) {
  std::vector<size_t> blocks;
  for (size_t block = 0; block < model.blocks.size(); ++block) {
    if (!model.embeds(block) && !model.predicts(block)) blocks.push_back(block);
  }
  return blocks;
}

Placement make_placement(const MemoryConfig& memory, const Layout& layout) {
  Placement placement;
  placement.units.resize(layout.units.units.size());
  placement.activations.resize(layout.model->blocks.size(), core::Tier::device);
  // While layers share parameters (pseudo_to_real) there is one of each group, and nothing to slide.
  const bool slides = memory.sliding.layers > 0 && !layout.model->shares_layers;
  if (slides) begin_sliding(memory, layout, placement);
  for (const PlacementRule& rule : memory.rules) Application(rule, layout, placement).run();
  if (slides && all_at_once(memory, layout)) {
    for_units_of_layers(layout, [&](uint32_t u) { placement.units[u].weight = core::Tier::device; });
  }
  place_updates(memory.update, layout, placement);
  if (slides) finish_sliding(memory, layout, placement);
  if (!placement.moves()) placement = {};
  place_recompute(memory, layout, placement);
  return placement;
}

void place_updates(UpdateSide side, const Layout& layout, Placement& placement) {
  for (size_t u = 0; u < placement.units.size(); ++u) {
    UnitTiers& tiers = placement.units[u];
    // The device has what ranks share for an update.
    const Unit& unit = layout.units.units[u];
    const bool exchanges = layout.optimizer->exchanges(unit);
    const bool states = !tiers.states.empty() && std::all_of(tiers.states.begin(), tiers.states.end(),
                                                             [](core::Tier t) { return t != core::Tier::device; });
    const bool weights = (layout.has_master(unit) ? tiers.master : tiers.weight) != core::Tier::device;
    const bool host = side == UpdateSide::automatic ? !exchanges && (states || weights) : side == UpdateSide::host;
    tiers.update = host ? core::Tier::host : core::Tier::device;
  }
}

}  // namespace zrt::runtime

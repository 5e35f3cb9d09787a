// The section `memory`.
#include <algorithm>

#include "core/error.h"
#include "core/keys/text.h"
#include "runtime/config/build.h"
#include "runtime/config/offload.h"

namespace zrt::runtime::configuration {
namespace {

using core::Tier;
using nlohmann::json;

std::string in_json(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + json(words[i]).dump();
  }
  return text;
}

// A layer, or the first and the last of several.
std::optional<LayerRange> layer_range(const json& value) {
  const auto layer = [](const json& number) { return number.is_number_integer() && number >= 0; };
  if (layer(value)) return LayerRange{value.get<int64_t>(), value.get<int64_t>()};
  if (!value.is_array() || value.size() != 2 || !layer(value[0]) || !layer(value[1]) || value[1] < value[0]) return {};
  return LayerRange{value[0].get<int64_t>(), value[1].get<int64_t>()};
}

// A rule of the list, as a value of its own for messages.
Value rule_value(const Value& list, size_t index) {
  return {list.path + "[" + std::to_string(index) + "]", list.value[index], list.from, list.place, list.line};
}

PlacementRule parse_rule(const Value& value) {
  if (!value.value.is_object()) {
    refuse(value, R"(is no rule; a rule is, for example, {"layers": [0, 5], "states": ["master"], "tier": "host"}.)");
  }
  PlacementRule rule;
  rule.from = shown(value);
  const std::vector<std::string> known{"layers", "parameters", "states", "tier"};
  for (const auto& [name, member] : value.value.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = nearest(name, known);
    refuse(value, "has the unknown member " + in_quotes(name) + "; legal: " + in_json(known) + "." +
                      (near.empty() ? "" : " Did you mean \"" + near + "\"?"));
  }
  const json& object = value.value;
  if (object.contains("layers") && object.contains("parameters")) {
    refuse(value, "has both layers and parameters; give one of them, or neither for everything.");
  }
  if (object.contains("layers")) {
    rule.layers = layer_range(object["layers"]);
    if (!rule.layers) refuse(value, "needs as layers one layer, counted from 0, or [first, last].");
  }
  if (object.contains("parameters")) {
    if (!object["parameters"].is_string() || object["parameters"] == "") {
      refuse(value, R"(needs as parameters a pattern over their names, for example "h.3.*".)");
    }
    rule.parameters = object["parameters"].get<std::string>();
  }
  const json states = object.value("states", json());
  const bool named = states.is_array() && !states.empty() && std::all_of(states.begin(), states.end(), [](auto& state) {
                       return state.is_string() && state != "";
                     });
  if (!named) {
    refuse(value, R"(needs states, a list of "weight", "grad", "master", "moments", "activations" and kinds of state )"
                  R"(such as "exp_avg".)");
  }
  rule.states = states.get<std::vector<std::string>>();
  const bool activations = std::find(rule.states.begin(), rule.states.end(), "activations") != rule.states.end();
  if (activations && !rule.parameters.empty()) {
    refuse(value, "names activations, which belong to layers and not to parameters; give layers instead.");
  }
  const auto tier = std::find(core::tier_names.begin(), core::tier_names.end(), object.value("tier", json()));
  if (tier == core::tier_names.end()) refuse(value, R"(needs a tier; legal: "device", "host" and "nvme".)");
  rule.tier = static_cast<Tier>(tier - core::tier_names.begin());
  return rule;
}

void read_placement(const Values& values, const Value& value, MemoryConfig& memory) {
  memory.open_placement = value.value == "auto";
  if (value.value.is_array()) {
    for (size_t i = 0; i < value.value.size(); ++i) {
      values.check([&] { memory.rules.push_back(parse_rule(rule_value(value, i))); });
    }
    return;
  }
  const std::string chosen = values.choice(value.path);
  if (chosen != "host" && chosen != "nvme") return;
  PlacementRule rule;
  rule.from = shown(value);
  rule.states = {"weight", "grad", "master", "moments"};
  rule.tier = chosen == "host" ? Tier::host : Tier::nvme;
  memory.rules.push_back(rule);
}

void read_recompute(const Values& values, MemoryConfig& memory) {
  const Value& value = values.at("memory.recompute");
  memory.recompute_from = shown(value);
  memory.open_recompute = value.value == "auto";
  if (!value.value.is_array()) {
    const std::string kind = values.choice(value.path);
    memory.recompute = kind == "full"        ? Recompute::full
                       : kind == "selective" ? Recompute::selective
                       : kind == "never"     ? Recompute::never
                                             : Recompute::none;
    return;
  }
  for (const json& entry : value.value) {
    const auto range = layer_range(entry);
    if (!range) refuse(value, "must list layers, counted from 0, each a number or [first, last].");
    memory.recompute_layers.push_back(*range);
  }
  if (!memory.recompute_layers.empty()) memory.recompute = Recompute::full;
}

// The folder of the nvme tier: its own key, or those of DeepSpeed that are in force at `stage`.
void read_nvme_path(Values& values, int stage, MemoryConfig& memory) {
  constexpr const char* own = "memory.nvme_path";
  const Value* asked = nullptr;
  for (const char* section : {"zero_optimization.offload_optimizer", "zero_optimization.offload_param"}) {
    const Value& device = values.at(std::string(section) + ".device");
    const Value& path = values.at(std::string(section) + ".nvme_path");
    const bool ignored = stage < 3 && std::string_view(section).ends_with("offload_param");
    if (ignored || device.value != "nvme" || path.value.is_null()) continue;
    if (asked && asked->value != path.value) {
      refuse(path, "contradicts " + asked->path + " = " + printed(asked->value) +
                       ": a rank keeps one file, in one folder. Give both the same.");
    }
    asked = &path;
  }
  const bool open = values.is_null(own) || values.at(own).from == From::inferred;
  if (asked && open) {
    values.infer(own, asked->value);
  } else if (asked && asked->value != values.at(own).value) {
    values.warnings.push_back(asked->path + " = " + printed(asked->value) + " (" + asked->place +
                              ") has no effect: memory.nvme_path = " + printed(values.at(own).value) + " is given.");
  }
  const Value& path = values.at(own);
  memory.nvme_path = path.value.is_null() ? std::string() : path.value.get<std::string>();
  if (!memory.nvme_path.empty()) return;
  if (!path.value.is_null()) refuse(path, "is no folder; give one on the NVMe drive, or null.");
  const auto needs = [](const std::string& who) {
    throw core::ConfigError(who + " needs a folder for the nvme tier. Set memory.nvme_path to one on an NVMe drive.");
  };
  for (const PlacementRule& rule : memory.rules) {
    if (rule.tier == Tier::nvme) values.check([&] { needs(rule.from); });
  }
  values.check([&] {
    if (memory.nvme_budget_bytes) needs(shown(values.at("memory.nvme_budget_bytes")));
  });
}

}  // namespace

const MicrobatchOrder* build_microbatch_order(const Values& values) {
  const std::string name = values.choice("memory.microbatch_order");
  if (name != "auto" && values.integer("parallel.pipeline") > 1) {
    refuse(values.at("memory.microbatch_order"),
           "says in which order one rank takes all blocks; the stages of a pipeline take microbatches as "
           "parallel.schedule says. Leave it \"auto\".");
  }
  for (const MicrobatchOrder* order : {MicrobatchOrder::microbatch_major, MicrobatchOrder::layer_major}) {
    if (order->name() == name) return order;
  }
  return MicrobatchOrder::automatic;
}

void build_memory(Values& values, const ZeroConfig& zero, const RunConfig& run, MemoryConfig& memory) {
  values.check([&] {
    memory.device_budget_bytes = values.optional_integer("memory.device_budget_bytes");
    memory.host_budget_bytes = values.optional_integer("memory.host_budget_bytes");
    memory.nvme_budget_bytes = values.optional_integer("memory.nvme_budget_bytes");
    memory.unit_bytes = values.integer("memory.unit_bytes");
  });
  values.check([&] {
    memory.link_bytes_per_second = values.optional_integer("memory.link_bytes_per_second");
    if (!memory.link_bytes_per_second || run.device != core::DeviceKind::cuda) return;
    refuse(
        values.at("memory.link_bytes_per_second"),
        "paces transfers where the CPU plays the device; with run.device = \"cuda\" the link itself does. Remove it.");
  });
  const Value& placement = values.at("memory.placement");
  values.check([&] { read_placement(values, placement, memory); });
  std::vector<PlacementRule> offload;
  values.check([&] { offload = offload_rules(values, zero.stage); });
  values.check([&] {
    if (offload.empty() || memory.open_placement) return;
    refuse(placement, "contradicts " + offload[0].from +
                          ": both say where states live. Remove one of them; memory.placement = \"auto\" keeps what "
                          "DeepSpeed's keys ask for.");
  });
  memory.rules.insert(memory.rules.end(), offload.begin(), offload.end());
  values.check([&] { read_nvme_path(values, zero.stage, memory); });
  values.check([&] {
    const std::string side = values.choice("memory.update");
    memory.update = side == "device" ? UpdateSide::device : side == "host" ? UpdateSide::host : UpdateSide::automatic;
  });
  values.check([&] { build_sliding(values, memory); });
  values.check([&] { read_recompute(values, memory); });
}

}  // namespace zrt::runtime::configuration

#include "runtime/train/run_manifest.h"

#include <fmt/format.h>

#include <bit>

#include "core/error.h"
#include "core/isa.h"
#include "optimizer/state.h"

namespace zrt::runtime {
namespace {

using checkpoint::Json;

constexpr std::string_view sparse_attention = "sparse_attention.", adapters = "adapters.";

}  // namespace

Json model_json(const Config& config) {
  Json json = Json::object();
  for (const ResolvedKey& key : config.keys) {
    if (key.path == "model.from") continue;  // a place on this machine
    if (key.path.rfind("model.", 0) == 0) json[key.path.substr(6)] = Json::parse(key.value);
  }
  if (config.model.sparse.pattern.sparse()) {
    for (const ResolvedKey& key : config.keys) {
      if (key.path.rfind(sparse_attention, 0) != 0) continue;
      json["sparse_attention"][key.path.substr(sparse_attention.size())] = Json::parse(key.value);
    }
    // With one choice it changes nothing.
    json["sparse_attention"]["different_layout_per_head"] = config.model.sparse.pattern.choices > 1;
  }
  if (config.model.adapters.rank > 0) {
    for (const ResolvedKey& key : config.keys) {
      if (key.path.rfind(adapters, 0) != 0) continue;
      json["adapters"][key.path.substr(adapters.size())] = Json::parse(key.value);
    }
  }
  return json;
}

std::string optimizer_type(const Config& config) {
  for (const ResolvedKey& key : config.keys) {
    if (key.path == "optimizer.type") return Json::parse(key.value).get<std::string>();
  }
  return "";
}

Json optimizers_json(std::span<const Layout> stages) {
  const optimizer::Optimizer& optimizer = *stages.front().optimizer;
  if (optimizer.members() == 1) return nullptr;
  Json groups = Json::object();
  for (const Layout& stage : stages) {
    for (const optimizer::Unit& unit : stage.units.units) {
      if (unit.counted_elsewhere || !unit.trained) continue;
      for (const optimizer::UnitParam& place : unit.params) {
        for (int at = 0; at < place.param->places(); ++at) {
          groups[optimizer.facts(unit.group).optimizer].push_back(place.param->name_at(at));
        }
      }
    }
  }
  return groups;
}

// Products of another level round elsewhere, so the run does not end with the bits it would have had.
std::string other_level(const checkpoint::Manifest& manifest) {
  const std::string level(core::isa_name(core::best_isa()));
  if (manifest.made_by.value("isa", Json(level)) == level) return "";
  return fmt::format(
      "this process computes at the level {} but the checkpoint was made at {}: from here on the bits are others. "
      "ZRT_MAX_ISA sets a level that all machines at hand have.",
      level, manifest.made_by["isa"].dump());
}

// Doubles are kept as their bits: a decimal detour would have to be proved exact in every reader.
Json control_json(const Persistent& persistent, uint32_t members) {
  Json json = Json::object();
  visit_fields(persistent, members, [&](const std::string& name, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
      json[name] = {{"value", value}, {"bits", fmt::format("{:016x}", std::bit_cast<uint64_t>(value))}};
    } else {
      json[name] = value;
    }
  });
  return json;
}

Persistent parse_control(const Json& json, uint32_t members, const std::string& name) {
  Persistent persistent;
  visit_fields(persistent, members, [&](const std::string& field, auto& value) {
    using Value = std::decay_t<decltype(value)>;
    try {
      if constexpr (std::is_same_v<Value, double>) {
        value = std::bit_cast<double>(
            static_cast<uint64_t>(std::stoull(json.at(field).at("bits").get<std::string>(), nullptr, 16)));
      } else {
        value = json.at(field).get<Value>();
      }
    } catch (const std::exception&) {
      throw core::DataError(fmt::format(
          "{}: 'control' has no usable '{}'{}", name, field,
          members > 1 && !json.contains(field)
              ? "; it was saved with fewer optimizers side by side: give the parameter_groups of its run, or "
                "set run.load_module_only to start from its weights alone"
              : ""));
    }
  });
  return persistent;
}

checkpoint::Manifest run_manifest(const Config& config, std::span<const Layout> stages, const Persistent& persistent) {
  checkpoint::Manifest manifest;
  manifest.optimizer = optimizer_type(config);
  manifest.model = model_json(config);
  manifest.control = control_json(persistent, config.optimizer.algorithm->members());
  manifest.made_by = {{"ranks", config.mesh.world()},
                      {"tensor", config.mesh.tensor()},
                      {"expert", config.mesh.expert()},
                      {"sequence", config.model.degrees.sequence_parallel},
                      {"pipeline", config.mesh.pipeline()},
                      {"stage", config.zero.stage},
                      {"type", core::dtype_name(config.precision.compute)},
                      {"train_batch_size", config.batch.train},
                      {"seed", config.run.seed},
                      {"isa", core::isa_name(core::best_isa())}};
  if (const Json groups = optimizers_json(stages); !groups.is_null()) manifest.made_by["optimizers"] = groups;
  return manifest;
}

}  // namespace zrt::runtime

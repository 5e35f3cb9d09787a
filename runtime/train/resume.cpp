#include "runtime/train/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/keys/text.h"
#include "core/printable.h"
#include "models/hugging_face.h"
#include "runtime/ops/rank.h"
#include "runtime/train/checkpoint/adapters.h"
#include "runtime/train/checkpoint/expert_layout.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/run_manifest.h"

namespace zrt::runtime {
namespace {

namespace fs = std::filesystem;
using checkpoint::Json;
using checkpoint::Reader;

// The folder to load; "" for none.
std::string choose(const Config& config, const std::function<void(const std::string&)>& warn) {
  const fs::path store = fs::path(config.run.out) / "checkpoints";
  checkpoint::restore_replaced(store);
  const auto newest = checkpoint::newest_valid(
      store, [&](const std::string& why) { warn(fmt::format("a checkpoint is passed over: {}", why)); });
  if (!config.run.resume.empty()) {
    const bool automatic = config.run.resume == "auto";
    if (automatic && !newest) {
      const auto broken = checkpoint::list_checkpoints(store);
      const size_t found = broken.size() + checkpoint::misnamed_checkpoints(store).size();
      if (found == 0) return "";
      throw core::DataError(fmt::format(
          "{} holds {} checkpoint(s), none of them whole; `zrt checkpoint verify` says why. Remove them to start again",
          store.string(), found));
    }
    const bool plain = !automatic && checkpoint::is_plain(config.run.resume);
    const fs::path chosen = automatic ? newest->folder
                            : plain   ? fs::path(config.run.resume)
                                      : checkpoint::find_checkpoint(config.run.resume);
    const bool at_start = plain || config.run.load_module_only;
    const int64_t step = at_start ? 0 : checkpoint::verify_checkpoint(chosen, false).step;
    if (!newest || newest->step <= step) return chosen.string();
    throw core::ConfigError(
        fmt::format("run.out {} holds a whole checkpoint of step {}, newer than step {} where this run would start: a "
                    "later --resume auto would choose the wrong one. Choose another folder, or remove the checkpoint",
                    config.run.out, newest->step, step));
  }
  if (newest) {
    throw core::ConfigError(
        fmt::format("run.out {} already holds checkpoints, the newest of step {}; go on from it with --resume auto, or "
                    "choose another folder",
                    config.run.out, newest->step));
  }
  return "";
}

// True for keys of the model that weights do not depend on.
bool trains_only(const std::string& key) {
  return key == "preset" || key == "dropout" || key == "mask_rate" || key == "whole_words";
}

void require_same_model(const Config& config, const Reader& reader) {
  const Json wanted = model_json(config);
  const Json found = reader.plain() ? model_json(hugging_face_config(reader, {})) : reader.manifest().model;
  std::vector<std::string> differences;
  for (const auto& [key, value] : found.items()) {
    if (trains_only(key) || key == "sparse_attention" || key == "adapters" || !wanted.contains(key) ||
        wanted[key] == value)
      continue;
    // Hugging Face names the longest sequence that the weights are good for; where they depend on it, shapes differ.
    // Positions of the rule "dynamic" stretch with sequences beyond it.
    const bool stretches = found.value("rope_scaling.rope_type", Json()) == "dynamic";
    const bool starts_anew = reader.plain() || config.run.load_module_only || reader.manifest().step == 0;
    if (starts_anew && key == "sequence" && (wanted[key] < value || stretches)) continue;
    const bool longer = starts_anew && key == "sequence";
    differences.push_back(fmt::format("model.{} is {} but {} has {}{}", key, wanted[key].dump(),
                                      reader.plain() && reader.base().empty() ? "its config.json" : "it", value.dump(),
                                      longer ? ", which is the most that is legal" : ""));
  }
  // Weights fit either way: those of a dense model, or taken alone, may start another pattern. A run that goes on must
  // not change what its layers attend to.
  const auto pattern = [](const Json& model) { return model.value("sparse_attention", Json()); };
  const bool starts = config.run.load_module_only || (reader.plain() && pattern(found).is_null());
  if (!starts && pattern(wanted) != pattern(found)) {
    differences.push_back(
        fmt::format("sparse_attention is {} but {} has {} (run.load_module_only takes the weights alone)",
                    pattern(wanted).dump(), reader.plain() ? "its config.json" : "it", pattern(found).dump()));
  }
  for (const char* key : {"rank", "alpha", "rslora"}) {
    if (!wanted.contains("adapters") || !found.contains("adapters")) break;
    const Json ours = wanted["adapters"].value(key, Json()), theirs = found["adapters"].value(key, Json());
    if (ours != theirs) {
      differences.push_back(fmt::format("adapters.{} is {} but it has {}", key, ours.dump(), theirs.dump()));
    }
  }
  if (differences.empty()) return;
  throw core::ConfigError(fmt::format("{}: the weights are of another model than the configuration's: {}",
                                      reader.folder().string(), fmt::join(differences, "; ")));
}

// Says what the files call a weight, where they do otherwise, and the shape that it has there with others.
std::string place_in_files(const Reader& reader, const std::string& name) {
  if (!reader.plain()) return "";
  const Json& model = reader.manifest().model;
  const std::string tensor =
      models::hugging_face_name(model.at("type"), name, checkpoint::has_fused_experts(reader.manifest()));
  const models::FusedTensor fused = models::fused_tensor(model, tensor);
  if (!fused.parts.empty()) return fmt::format(" (in '{}' of shape [{}])", tensor, fmt::join(fused.shape, ", "));
  return tensor == name ? "" : fmt::format(" ('{}' in the files)", tensor);
}

// Learned positions are a row for each place of a sample, so that samples of another length need another tensor.
std::string why_longer(const std::string& name, const std::vector<int64_t>& wanted, const std::vector<int64_t>& found) {
  const bool learned = name == "wpe.weight" || name.ends_with("position_embeddings.weight");
  if (!learned || wanted.size() != 2 || found.size() != 2 || wanted[1] != found[1]) return "";
  return fmt::format(": it has a row for each position that the model has learned. Set model.sequence to {}", found[0]);
}

void require_tensor(const checkpoint::TensorSet* set, const Reader& reader, const std::string& name,
                    const std::vector<int64_t>& shape) {
  if (set && set->has(name) && set->shape(name) == shape) return;
  throw core::DataError(core::printable(
      fmt::format("{}: the model needs tensor '{}'{} of shape [{}]; {}", reader.folder().string(), name,
                  place_in_files(reader, name), fmt::join(shape, ", "),
                  !set || !set->has(name) ? "there is no such tensor"
                                          : fmt::format("it is [{}]{}", fmt::join(set->shape(name), ", "),
                                                        why_longer(name, shape, set->shape(name))))));
}

// Names of all tensors of a unit, on whatever rank they lie.
std::vector<std::string> names_of(const optimizer::Unit& unit) {
  std::vector<std::string> names;
  for (const optimizer::UnitParam& place : unit.params) {
    for (int at = 0; at < place.param->places(); ++at) names.push_back(place.param->name_at(at));
  }
  return names;
}

// States of one optimizer may have the names of another's.
void require_same_optimizers(const Reader& reader, const Layout& layout) {
  const Json& made_by = reader.manifest().made_by;
  const Json groups = made_by.is_object() ? made_by.value("optimizers", Json()) : Json();
  if (!groups.is_object()) return;
  std::map<std::string, std::string> theirs;
  for (const auto& [name, params] : groups.items()) {
    for (const Json& param : params) theirs[param.get<std::string>()] = name;
  }
  for (const optimizer::Unit& unit : layout.units.units) {
    if (!unit.trained) continue;
    const std::string ours = layout.optimizer->facts(unit.group).optimizer;
    for (const std::string& name : names_of(unit)) {
      const auto known = theirs.find(name);
      if (known == theirs.end() || known->second == ours) continue;
      throw core::ConfigError(fmt::format(
          "{}: '{}' is to be updated by {}, and the checkpoint has what {} keeps of it. Give the optimizer and "
          "parameter_groups that it was saved with, which are in config.resolved.json of its run, or set "
          "run.load_module_only to start from its weights alone",
          reader.folder().string(), name, ours, known->second));
    }
  }
}

// Tells of states in the checkpoint that no stage's optimizer keeps: they are lost with the next save.
void warn_of_left_over_states(const Reader& reader, std::span<const Layout> stages,
                              const std::function<void(const std::string&)>& warn) {
  if (!reader.states() || !warn) return;
  std::set<std::string> kept;
  for (const Layout& layout : stages) {
    for (const optimizer::Unit& unit : layout.units.units) {
      for (const optimizer::UnitState& kind : layout.optimizer->states(unit)) {
        for (const optimizer::StateTensor& tensor : kind.tensors) {
          const models::Param& param = *tensor.param->param;
          for (int at = 0; at < param.places(); ++at) kept.insert(state_name(kind.kind, param.name_at(at)));
        }
      }
    }
  }
  size_t left_over = 0;
  std::string first;
  for (const std::string& name : reader.states()->names()) {
    if (kept.contains(name) || reader.states()->is_alias(name)) continue;
    if (left_over++ == 0) first = name;
  }
  if (left_over == 0) return;
  warn(fmt::format(
      "{}: {} of its {} optimizer states are dropped, the first '{}': the optimizer as configured keeps none "
      "of them",
      reader.folder().string(), left_over, reader.states()->names().size(), core::printable(first)));
}

}  // namespace

std::unique_ptr<Reader> open_resume(const Config& config, comm::Transport& transport,
                                    const std::function<void(const std::string&)>& warn) {
  const auto timeout = std::chrono::seconds(config.run.timeout_seconds);
  std::string folder = transport.leads() ? choose(config, warn) : "";
  folder = transport.exchange(folder, 10 * timeout).front();
  if (folder.empty()) {
    if (config.run.load_module_only) warn("run.load_module_only has no effect: there is no checkpoint to load");
    return nullptr;
  }
  const std::function<void(const std::string&)> heard = transport.leads() ? warn : nullptr;  // one process speaks
  return std::make_unique<Reader>(checkpoint::is_plain(folder) ? checkpoint::open_plain(folder, heard)
                                                               : Reader(folder, false));
}

void require_fits(const Reader& reader, const Config& config, std::span<const Layout> stages,
                  const std::function<void(const std::string&)>& warn) {
  require_same_model(config, reader);
  const std::string& made_with = reader.manifest().optimizer;
  const bool states = !made_with.empty() && !config.run.load_module_only;
  if (states && core::keys::in_lower_case(made_with) != core::keys::in_lower_case(optimizer_type(config))) {
    throw core::ConfigError(fmt::format(
        "optimizer.type is {} but the checkpoint {} holds the states of {}; set run.load_module_only to start from its "
        "weights alone",
        optimizer_type(config), reader.folder().string(), made_with));
  }
  std::vector<const models::Model*> models;
  for (const Layout& stage : stages) {
    require_tensors(reader, stage, states);
    models.push_back(stage.model.get());
  }
  refuse_left_over(reader, models);
  if (states) warn_of_left_over_states(reader, stages, warn);
}

void refuse_left_over(const Reader& reader, std::span<const models::Model* const> stages) {
  std::set<std::string> wanted;
  for (const models::Model* stage : stages) {
    for (const auto& ref : stage->canonical_params()) {
      const models::Param& param = stage->blocks[ref.block]->params()[ref.index];
      for (int at = 0; at < param.places(); ++at) wanted.insert(param.name_at(at));
    }
  }
  std::set<std::string> of_files;  // a tensor of several parameters once
  for (const std::string& name : reader.weights().names()) {
    if (!wanted.contains(name) && !reader.weights().is_alias(name))
      of_files.insert(reader.weights().name_in_file(name));
  }
  if (of_files.empty()) return;
  const auto adapter = std::find_if(of_files.begin(), of_files.end(), [](const std::string& name) {
    return checkpoint::MergedWeights::is_adapter(name);
  });
  if (adapter != of_files.end() && reader.manifest().model.contains("adapters")) {
    throw core::ConfigError(core::printable(
        fmt::format("{}: it has the adapter '{}', and the configuration has none there (adapters.targets); give the "
                    "section `adapters` that it was trained with, or merge it first (zrt checkpoint export)",
                    reader.folder().string(), *adapter)));
  }
  std::vector<std::string> left_over(of_files.begin(), of_files.end());
  constexpr size_t named = 3;
  const size_t more = left_over.size() - std::min(left_over.size(), named);
  left_over.resize(left_over.size() - more);
  throw core::DataError(core::printable(fmt::format(
      "{}: the files hold {} tensors and the model of {} layers has {}: it has no '{}'{}. {}", reader.folder().string(),
      reader.weights().names().size(), reader.manifest().model.value("layers", Json()).dump(), wanted.size(),
      fmt::join(left_over, "', '"), more == 0 ? "" : fmt::format(" and {} more", more),
      reader.plain() ? "Correct config.json, or save the weights without what another model or head has"
                     : "The checkpoint is of another model")));
}

void require_weights(const Reader& reader, const models::Model& model) {
  reader.require_base();
  // Adapters begin where the weights have none.
  const std::vector<std::string> names = reader.weights().names();
  const bool anew = std::none_of(names.begin(), names.end(),
                                 [](const std::string& name) { return name.find(".lora_") != std::string::npos; });
  for (const auto& ref : model.canonical_params()) {
    const models::Param& param = model.blocks[ref.block]->params()[ref.index];
    if (param.adapter && anew) continue;
    if (param.adapter && !reader.weights().has(param.name)) {
      throw core::ConfigError(core::printable(fmt::format(
          "{}: it has adapters, but no '{}', which adapters.targets asks for; give the targets that they were "
          "trained with, or leave the section out where the folder says them",
          reader.folder().string(), param.name)));
    }
    for (int at = 0; at < param.places(); ++at) {
      require_tensor(&reader.weights(), reader, param.name_at(at), param.whole_shape());
    }
  }
}

void require_tensors(const Reader& reader, const Layout& layout, bool states) {
  require_weights(reader, *layout.model);
  if (!states) return;
  require_same_optimizers(reader, layout);
  for (const optimizer::Unit& unit : layout.units.units) {
    for (const optimizer::UnitState& kind : layout.optimizer->states(unit)) {
      for (const optimizer::StateTensor& tensor : kind.tensors) {
        const std::string &param = tensor.param->param->name, name = state_name(kind.kind, param);
        if (tensor.param->param->adapter && !reader.weights().has(param)) {
          throw core::ConfigError(
              fmt::format("{}: adapters are to begin beside its weights, and it goes on with states of an optimizer, "
                          "which they have "
                          "none of; set run.load_module_only to start from its weights alone",
                          reader.folder().string()));
        }
        if (!reader.states() || !reader.states()->has(name)) {
          throw core::ConfigError(fmt::format(
              "{}: '{}' is to be updated by {}, which keeps '{}', and the checkpoint has none of it. Give the "
              "optimizer "
              "and parameter_groups that it was saved with, which are in config.resolved.json of its run, or set "
              "run.load_module_only to start from its weights alone",
              reader.folder().string(), param, layout.optimizer->facts(unit.group).optimizer, kind.kind));
        }
        require_tensor(reader.states(), reader, name, tensor.shape);
      }
    }
  }
}

uint64_t load_host_bytes(const Reader& reader) {
  return reader.table_bytes() + load_buffer_bytes + checkpoint::read_buffer_bytes;
}

Config hugging_face_config(const Reader& reader, const Settings& sets) {
  Json text{{"train_batch_size", 1}, {"model", reader.manifest().model}};
  for (const char* name : {"sparse_attention", "adapters"}) {
    const auto found = text["model"].find(name);
    if (found == text["model"].end()) continue;
    const Json section = *found;
    text["model"].erase(found);
    text[name] = section;
  }
  return parse_config(text.dump(), (reader.folder() / "config.json").string(), sets, 1);
}

std::optional<fs::path> find_run_config(const fs::path& path, const fs::path& checkpoint) {
  for (const fs::path& folder : {path, checkpoint / ".." / ".."}) {
    if (fs::exists(folder / "config.resolved.json")) return folder / "config.resolved.json";
  }
  return std::nullopt;
}

RunPaths find_run(const fs::path& path) {
  const fs::path checkpoint = checkpoint::find_checkpoint(path);
  if (const auto config = find_run_config(path, checkpoint)) return {*config, checkpoint};
  throw core::DataError(fmt::format(
      "{}: there is no config.resolved.json beside the checkpoint; name the folder that `zrt train --out` wrote",
      path.string()));
}

}  // namespace zrt::runtime

#include "runtime/train/checkpoint/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/finite.h"
#include "core/printable.h"
#include "models/adapters.h"
#include "models/hugging_face.h"
#include "models/sharing.h"
#include "runtime/train/checkpoint/hugging_face.h"

namespace zrt::runtime::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view down_name = ".lora_A.weight", up_name = ".lora_B.weight", weight_name = ".weight";
constexpr std::string_view peft_prefix = "base_model.model.";

[[noreturn]] void refuse_adapters(const fs::path& where, const std::string& what) {
  throw core::DataError(core::printable(fmt::format("{}: {}", where.string(), what)));
}

// Keys of adapter_config.json that do not change what the adapters compute, or that are read below.
const std::set<std::string> known_keys{"auto_mapping",
                                       "base_model_name_or_path",
                                       "bias",
                                       "fan_in_fan_out",
                                       "inference_mode",
                                       "init_lora_weights",
                                       "layers_pattern",  // tensors say it by their names
                                       "layers_to_transform",
                                       "lora_alpha",
                                       "lora_dropout",
                                       "megatron_core",
                                       "peft_type",
                                       "peft_version",
                                       "qalora_group_size",
                                       "r",
                                       "revision",
                                       "runtime_config",
                                       "target_modules",
                                       "task_type",
                                       "use_rslora"};
// Ways to begin that leave the base as it is; others take out of it what the adapters begin with.
const std::set<Json> known_beginnings{true, false, "gaussian", "eva", "orthogonal"};

// Says that a key has the value that changes nothing.
bool is_off(const Json& value) {
  return value.is_null() || value == false || ((value.is_object() || value.is_array()) && value.empty());
}

double number_of(const Json& config, const char* key, double fallback, const fs::path& file) {
  const Json value = config.value(key, Json(fallback));
  if (value.is_number()) return value.get<double>();
  refuse_adapters(file, fmt::format("'{}' is {}; it must be a number", key, value.dump()));
}

void check_adapter_config(const Json& config, const fs::path& file) {
  const Json type = config.value("peft_type", Json());
  if (type != "LORA") {
    refuse_adapters(file, fmt::format("'peft_type' is {}; zrt reads \"LORA\" alone", type.dump()));
  }
  if (const Json bias = config.value("bias", Json("none")); bias != "none") {
    refuse_adapters(file, fmt::format("'bias' is {}: biases of the base were trained, too, which zrt does not read; "
                                      "legal is \"none\"",
                                      bias.dump()));
  }
  if (const Json begin = config.value("init_lora_weights", Json(true)); !known_beginnings.contains(begin)) {
    refuse_adapters(file, fmt::format("'init_lora_weights' is {}, by which the base changes, too; convert the adapters "
                                      "to ones of the plain base first (in PEFT: save_pretrained with "
                                      "path_initial_model_for_weight_conversion)",
                                      begin.dump()));
  }
  for (const auto& [key, value] : config.items()) {
    if (known_keys.contains(key) || is_off(value)) continue;
    refuse_adapters(file, fmt::format("'{}' is {}, which zrt does not do; merge the adapters into their base with PEFT "
                                      "(merge_and_unload), or train them without it",
                                      key, value.dump()));
  }
}

// The layers of the model by the files' names of their modules.
std::string module_of(const std::string& type, const std::string& layer) {
  const std::string tensor = models::hugging_face_name(type, layer + std::string(weight_name));
  return tensor.substr(0, tensor.size() - weight_name.size());
}

std::string peft_name(const std::string& type, const std::string& layer) {
  return std::string(peft_prefix) + module_of(type, layer);
}

// "self_attn.q_proj" of "model.layers.3.self_attn.q_proj".
std::string behind_number(const std::string& layer) {
  const std::string number = "." + std::to_string(models::layer_of(layer + ".")) + ".";
  const size_t at = layer.find(number);
  return at == std::string::npos ? layer : layer.substr(at + number.size());
}

// Names of targets that take these layers and none of the others.
std::vector<std::string> targets_for(const std::set<std::string>& layers, const std::vector<std::string>& all) {
  const auto takes_only = [&](const std::set<std::string>& targets) {
    return std::all_of(all.begin(), all.end(), [&](const std::string& layer) {
      const bool taken = std::any_of(targets.begin(), targets.end(),
                                     [&](const std::string& target) { return models::Adapters::takes(target, layer); });
      return taken == layers.contains(layer);
    });
  };
  std::set<std::string> last, longer;
  for (const std::string& layer : layers) {
    longer.insert(behind_number(layer));
    last.insert(layer.substr(layer.rfind('.') + 1));
  }
  const std::set<std::string>& chosen = takes_only(last) ? last : takes_only(longer) ? longer : layers;
  return {chosen.begin(), chosen.end()};
}

// Matrices of the base that could have an adapter.
std::vector<std::string> matrices_of(const TensorSet& weights) {
  std::vector<std::string> layers;
  for (const std::string& name : weights.names()) {
    if (!name.ends_with(weight_name) || MergedWeights::is_adapter(name) || weights.shape(name).size() != 2) continue;
    if (name.find(".experts.") != std::string::npos || name.ends_with("mlp.gate.weight")) continue;
    if (models::layer_of(name) >= 0) layers.push_back(name.substr(0, name.size() - weight_name.size()));
  }
  return layers;
}

// Throws DataError where the layer has one of an adapter's two matrices.
bool has_adapter(const Reader& reader, const std::string& layer) {
  const bool down = reader.weights().has(layer + std::string(down_name));
  if (down == reader.weights().has(layer + std::string(up_name))) return down;
  refuse_adapters(reader.folder(),
                  fmt::format("'{}' has one of the two matrices of its adapter; the other, '{}', is missing", layer,
                              layer + std::string(down ? up_name : down_name)));
}

fs::path base_folder(const fs::path& folder, const Json& config) {
  const Json named = config.value("base_model_name_or_path", Json());
  const std::string name = named.is_string() ? named.get<std::string>() : "";
  for (const fs::path& path : {fs::path(name), folder / name}) {
    if (!name.empty() && fs::is_directory(path)) return path;
  }
  refuse_adapters(
      folder / adapter_config_name,
      fmt::format("'base_model_name_or_path' is {}, which is no folder here. Write the folder of that model "
                  "there, once it is downloaded or exported",
                  named.dump()));
}

}  // namespace

bool is_adapter_folder(const fs::path& folder) {
  return fs::exists(folder / adapter_config_name) && !fs::exists(folder / "config.json");
}

bool is_plain(const fs::path& folder) {
  return is_hugging_face(folder) || is_adapter_folder(folder);
}

Reader open_plain(const fs::path& folder, const std::function<void(const std::string&)>& warn) {
  return is_adapter_folder(folder) ? open_adapters(folder, warn) : open_hugging_face(folder, warn);
}

Json base_json(const fs::path& folder) {
  Json files = Json::object();
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const fs::path& path = entry.path();
    if (path.extension() != ".safetensors" && path.filename() != "config.json" && path.filename() != manifest_name) {
      continue;
    }
    files[path.filename().string()] = core::InputFile(path).sampled_xxh3();
  }
  return {{"folder", fs::absolute(folder).lexically_normal().string()}, {"files", std::move(files)}};
}

Reader open_base(const Json& base, const fs::path& checkpoint) {
  const fs::path folder = base.at("folder").get<std::string>();
  if (!fs::is_directory(folder)) {
    refuse_adapters(checkpoint, fmt::format("it holds what was trained alone, and the folder of the weights that this "
                                            "belongs to, {}, is gone; put it there again, or a link to it",
                                            folder.string()));
  }
  if (const Json now = base_json(folder); now.at("files") != base.at("files")) {
    refuse_adapters(checkpoint, fmt::format("it holds what was trained alone, and {} has other files than when that "
                                            "was trained; put the old ones there again",
                                            folder.string()));
  }
  return fs::exists(folder / manifest_name) ? Reader(folder, false) : open_hugging_face(folder);
}

Reader open_adapters(const fs::path& folder, const std::function<void(const std::string&)>& warn) {
  const fs::path file = folder / adapter_config_name;
  const Json config = parse_strict_json(core::read_text(file, 16u << 20), file.string(), 16);
  if (!config.is_object()) refuse_adapters(file, "is no JSON object");
  check_adapter_config(config, file);
  if (!fs::exists(folder / adapter_weights_name)) {
    refuse_adapters(folder, fmt::format("holds {} but no {}; adapters of another format must be saved as safetensors "
                                        "first",
                                        adapter_config_name, adapter_weights_name));
  }
  const fs::path of = base_folder(folder, config);
  Reader weights = open_hugging_face(of, warn);
  Json model = weights.manifest().model;
  const std::string type = model.at("type").get<std::string>();
  const std::vector<std::string> layers = matrices_of(weights.weights());
  std::map<std::string, std::string> ours;  // by PEFT's names of the matrices
  std::set<std::string> fused;
  for (const std::string& layer : layers) {
    const std::string tensor = models::hugging_face_name(type, layer + std::string(weight_name));
    if (!models::fused_tensor(model, tensor).parts.empty()) {
      for (const std::string_view part : {down_name, up_name}) fused.insert(peft_name(type, layer) + std::string(part));
      continue;
    }
    for (const std::string_view part : {down_name, up_name}) {
      ours[peft_name(type, layer) + std::string(part)] = layer + std::string(part);
    }
  }
  TensorSet tensors(folder, {folder / adapter_weights_name});
  std::set<std::string> adapted;
  tensors.rename([&](const std::string& name) -> std::optional<std::string> {
    const auto found = ours.find(name);
    if (fused.contains(name)) {
      refuse_adapters(
          folder / adapter_weights_name,
          fmt::format("tensor '{}' is of an adapter for several matrices that zrt keeps apart; merge it into "
                      "the base with PEFT (merge_and_unload)",
                      name));
    }
    if (found == ours.end()) {
      refuse_adapters(
          folder / adapter_weights_name,
          fmt::format("tensor '{}' is of no linear layer of the base {} that can have an adapter (those of experts "
                      "cannot); a layer's is called '{}'",
                      name, of.string(), ours.empty() ? "" : ours.begin()->first));
    }
    const std::string& to = found->second;
    adapted.insert(to.substr(0, to.size() - down_name.size()));
    return to;
  });
  const Json rank = config.value("r", Json());
  for (const std::string& layer : adapted) {
    if (tensors.shape(layer + std::string(down_name)).front() == rank) continue;
    refuse_adapters(file, fmt::format("'r' is {}, and '{}' has rank {}", rank.dump(), layer,
                                      tensors.shape(layer + std::string(down_name)).front()));
  }
  model["adapters"] = {{"type", "lora"},
                       {"rank", rank},
                       {"alpha", number_of(config, "lora_alpha", 8, file)},
                       {"rslora", config.value("use_rslora", Json(false)) == true},
                       {"dropout", number_of(config, "lora_dropout", 0, file)},
                       {"targets", targets_for(adapted, layers)}};
  Reader all(folder, std::move(model), std::move(tensors));
  all.add_base(of, weights.weights());
  return all;
}

std::vector<std::string> export_adapters(const Reader& reader, const fs::path& folder) {
  const fs::path out = folder.has_filename() ? folder : folder.parent_path();  // "name/"
  if (out.empty()) throw core::DataError("the folder to export to has no name");
  if (fs::exists(out)) refuse_adapters(out, "exists already; name a new folder");
  const Json& model = reader.manifest().model;
  if (!model.contains("adapters")) {
    refuse_adapters(reader.folder(), "its model has no adapters; export it without --adapters");
  }
  reader.require_base();
  models::to_hugging_face(model, core::DType::f32);  // throws for a model that Hugging Face does not have
  for (const std::string& name : reader.own_weights()) {
    if (reader.base().empty() || MergedWeights::is_adapter(name)) continue;
    refuse_adapters(reader.folder(), fmt::format("'{}' was trained beside the adapters, and a folder of PEFT has these "
                                                 "alone; export the merged weights instead",
                                                 name));
  }
  const Json& from = model["adapters"];
  const std::string type = model.at("type").get<std::string>();
  SafetensorsHeader header;
  std::map<std::string, std::string> ours;
  std::set<std::string> modules;
  for (const std::string& name : reader.weights().names()) {
    if (!MergedWeights::is_adapter(name)) continue;
    const std::string layer = name.substr(0, name.size() - down_name.size());
    const std::string weight = layer + std::string(weight_name);
    has_adapter(reader, layer);
    if (!models::fused_tensor(model, models::hugging_face_name(type, weight)).parts.empty()) {
      refuse_adapters(reader.folder(),
                      fmt::format("'{}' is a part of '{}' in files of this type, and PEFT has one adapter for all of "
                                  "that; export the merged weights instead",
                                  weight, models::hugging_face_name(type, weight)));
    }
    const std::string theirs = peft_name(type, layer) + name.substr(layer.size());
    ours[theirs] = name;
    modules.insert(theirs.substr(peft_prefix.size(), theirs.size() - peft_prefix.size() - down_name.size()));
    header.tensors.push_back({theirs, "F32", reader.weights().shape(name), 0, 0});
  }
  const std::set<std::string> chosen(modules.begin(), modules.end());
  std::vector<std::string> all;
  for (const std::string& layer : matrices_of(reader.weights()))
    all.push_back(peft_name(type, layer).substr(peft_prefix.size()));
  Json config{{"peft_type", "LORA"},
              {"task_type", models::find_model_spec(type)->causal ? Json("CAUSAL_LM") : Json()},
              {"base_model_name_or_path", is_hugging_face(reader.base()) ? Json(reader.base().string()) : Json()},
              {"r", from.at("rank")},
              {"lora_alpha", from.at("alpha")},
              {"lora_dropout", from.at("dropout")},
              {"use_rslora", from.at("rslora")},
              {"target_modules", targets_for(chosen, all)},
              {"fan_in_fan_out", models::stores_inputs_first(type)},
              {"bias", "none"},
              {"inference_mode", true}};
  const double alpha = from.at("alpha").get<double>();
  if (alpha == std::floor(alpha)) config["lora_alpha"] = static_cast<int64_t>(alpha);
  const fs::path temporary = out.parent_path() / ("." + out.filename().string() + ".export.tmp");
  fs::remove_all(temporary);
  core::make_folder(temporary);
  try {
    const std::string head = lay_out(header);
    core::NewFile file(temporary / adapter_weights_name);
    file.write(head.data(), head.size());
    for (const TensorEntry& tensor : header.tensors) {
      std::vector<float> values(static_cast<size_t>(tensor.elements()));
      reader.weights().read_finite(ours.at(tensor.name), 0, values, core::DType::f32);
      file.write(values.data(), values.size() * sizeof(float));
    }
    file.keep();
    core::write_durably(temporary / adapter_config_name, config.dump(2) + "\n");
    core::rename_path(temporary, out);
    core::sync_folder(out.has_parent_path() ? out.parent_path() : ".");
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
  return {adapter_config_name, adapter_weights_name};
}

void MergedWeights::load(const std::string& layer) {
  const TensorSet& weights = reader_.weights();
  const std::string down = layer + std::string(down_name), up = layer + std::string(up_name);
  rank_ = weights.shape(down).front(), in_ = weights.shape(down).back(), out_ = weights.shape(up).front();
  down_.resize(static_cast<size_t>(rank_ * in_)), up_.resize(static_cast<size_t>(out_ * rank_));
  weights.read_finite(down, 0, down_, core::DType::f32);
  std::vector<float> rows(up_.size());
  weights.read_finite(up, 0, rows, core::DType::f32);
  for (int64_t o = 0; o < out_; ++o) {
    for (int64_t k = 0; k < rank_; ++k)
      up_[static_cast<size_t>(k * out_ + o)] = rows[static_cast<size_t>(o * rank_ + k)];
  }
  layer_ = layer;
}

void MergedWeights::read(const std::string& parameter, int64_t begin, std::span<float> out, core::DType type) {
  reader_.weights().read_finite(parameter, begin, out, type);
  const std::string layer = parameter.substr(0, parameter.size() - std::min(parameter.size(), weight_name.size()));
  if (!parameter.ends_with(weight_name) || !has_adapter(reader_, layer)) return;
  if (layer_ != layer) load(layer);
  const Json& model = reader_.manifest().model;
  const Json& from = model.at("adapters");
  models::Adapters adapters{.rank = rank_, .alpha = from.at("alpha").get<double>()};
  adapters.by_root = from.at("rslora").get<bool>();
  const float scale = adapters.scale();
  const bool inputs_first = models::stores_inputs_first(model.at("type").get<std::string>());
  // Rows of the weight take a row of one factor, each with a column of the other.
  const std::vector<float>& along = inputs_first ? up_ : down_;
  const std::vector<float>& across = inputs_first ? down_ : up_;
  const int64_t columns = inputs_first ? out_ : in_, rows = inputs_first ? in_ : out_;
  std::vector<float> sums;
  for (int64_t at = begin, end = begin + static_cast<int64_t>(out.size()); at < end;) {
    const int64_t row = at / columns, first = at % columns, count = std::min(columns - first, end - at);
    sums.assign(static_cast<size_t>(count), 0);
    for (int64_t k = 0; k < rank_; ++k) {
      const float factor = across[static_cast<size_t>(k * rows + row)];
      const float* const with = along.data() + k * columns + first;
      for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] += factor * with[i];
    }
    float* const to = out.data() + (at - begin);
    for (int64_t i = 0; i < count; ++i) to[i] += scale * sums[static_cast<size_t>(i)];
    at += count;
  }
  if (const int64_t bad = core::first_not_finite(out, type); bad >= 0) {
    refuse_adapters(reader_.folder(),
                    fmt::format("'{}' with its adapter is {} at element {}{}", parameter, out[static_cast<size_t>(bad)],
                                begin + bad, core::not_finite_note(out[static_cast<size_t>(bad)], type)));
  }
}

}  // namespace zrt::runtime::checkpoint

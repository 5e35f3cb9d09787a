#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/keys/text.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

struct Size {
  const char* key;
  int64_t models::ModelSizes::*field;
};

constexpr Size sizes[] = {
    {"model.layers", &ModelConfig::layers}, {"model.hidden", &ModelConfig::hidden},
    {"model.heads", &ModelConfig::heads},   {"model.sequence", &ModelConfig::sequence},
    {"model.vocab", &ModelConfig::vocab},
};

// A key that types of models own and that has a value.
struct OwnedKey {
  nlohmann::json fallback;
  std::vector<std::string> types;
};
std::map<std::string, OwnedKey> owned_keys() {
  std::map<std::string, OwnedKey> owned;
  for (const models::ModelSpec* spec : models::model_specs()) {
    for (const Section& section : spec->sections) {
      for (const Key& key : section.keys) {
        if ((key.types & t_object) != 0 || key.fallback == nullptr) continue;
        OwnedKey& entry = owned[key_path(section, key.name)];
        entry.fallback = nlohmann::json::parse(key.fallback);
        entry.types.push_back(spec->type);
      }
    }
  }
  return owned;
}

// Returns what a preset fixes, by key: also that others have their defaults.
std::map<std::string, nlohmann::json> fixed_by(const models::FoundPreset& found) {
  std::map<std::string, nlohmann::json> fixed{{"model.type", found.spec->type}, {"model.tied", found.spec->tied}};
  for (const auto& [path, owned] : owned_keys()) fixed[path] = owned.fallback;
  for (const auto& [key, value] : found.preset->keys) fixed["model." + key] = value;
  return fixed;
}

// A preset fills what was not given. One named on the command line also wins over what the file gives.
void apply_preset(Values& values, const models::FoundPreset& found) {
  const bool wins = values.at("model.preset").from == From::command_line;
  for (const auto& [key, fixed] : fixed_by(found)) {
    const Value& value = values.at(key);
    if (value.value == fixed) continue;
    if (fixed.is_null() && value.from == From::inferred && settled(key)) continue;
    if (!value.value.is_null()) {
      if (!wins || value.from == From::command_line) continue;
      if (value.from == From::file) {
        values.warnings.push_back(value.path + " = " + printed(value.value) + " (" + value.place +
                                  ") gives way to the preset on the command line.");
      }
    }
    values.infer(key, fixed);
  }
  if (values.text("model.type") != found.spec->type) {
    refuse(values.at("model.type"), "contradicts model.preset = \"" + found.preset->name + "\", which is of type \"" +
                                        found.spec->type + "\". Leave model.type out.");
  }
}

// The name of the preset; "": none is wanted.
std::string use_preset(Values& values) {
  if (values.is_null("model.preset")) return "";
  const std::string name = values.text("model.preset");
  const models::FoundPreset found = models::find_preset(name);
  if (found.preset == nullptr) {
    const std::string near = nearest(name, models::preset_names());
    refuse(values.at("model.preset"), "is no preset; legal: " + join(models::preset_names()) + "." +
                                          (near.empty() ? "" : " Did you mean " + near + "?"));
  }
  apply_preset(values, found);
  return name;
}

void refuse_keys_of_others(const Values& values, const std::string& type) {
  for (const auto& entry : owned_keys()) {
    const Value& value = values.at(entry.first);
    const std::vector<std::string>& types = entry.second.types;
    const bool own = std::find(types.begin(), types.end(), type) != types.end();
    if (own || !values.given(entry.first) || value.value == entry.second.fallback) continue;
    values.check([&] {
      refuse(value, "belongs to model.type = \"" + join(types, "\" or \"") + "\", but this model is of type \"" + type +
                        "\". Remove the key, or change the type.");
    });
  }
}

DataSource source(const Value& whole, const nlohmann::json& entry) {
  const bool shaped = entry.is_array() && (entry.size() == 2 || entry.size() == 3) && entry[0].is_number() &&
                      entry[1].is_string() && (entry.size() == 2 || entry[2].is_string());
  const double weight = shaped ? entry[0].get<double>() : 0;
  if (!shaped || !std::isfinite(weight) || weight <= 0 || entry[1].get<std::string>().empty()) {
    refuse(whole, "has the entry " + printed(entry) +
                      "; legal entries: [weight, \"prefix\"] or [weight, \"prefix\", \"language\"] with a weight above "
                      "0.");
  }
  return {weight, entry[1].get<std::string>(), entry.size() == 3 ? entry[2].get<std::string>() : ""};
}

// "prefix", ["prefix"] or ["prefix", "language"].
DataSource validation_source(const Value& whole, const nlohmann::json& entry) {
  nlohmann::json parts = entry.is_string() ? nlohmann::json::array({entry}) : entry;
  bool shaped = parts.is_array() && (parts.size() == 1 || parts.size() == 2);
  for (size_t i = 0; shaped && i < parts.size(); ++i) shaped = parts[i].is_string();
  if (!shaped || parts[0].get<std::string>().empty()) {
    refuse(whole, "has the entry " + printed(entry) + "; legal entries: \"prefix\" or [\"prefix\", \"language\"].");
  }
  return {1, parts[0].get<std::string>(), parts.size() == 2 ? parts[1].get<std::string>() : ""};
}

}  // namespace

ModelConfig build_model(Values& values, const models::Degrees& degrees) {
  ModelConfig model;
  if (!values.is_null("model.type")) values.choice("model.type");
  use_model_folder(values);
  model.from = optional_text(values, "model.from");
  model.preset = use_preset(values);
  if (values.is_null("model.type")) values.infer("model.type", models::model_specs().front()->type);
  model.type = values.text("model.type");
  model.dropout = values.real("model.dropout");
  const models::ModelSpec* spec = models::find_model_spec(values.choice("model.type"));
  std::vector<std::string> missing;
  for (const Size& size : sizes) {
    if (values.is_null(size.key)) missing.push_back(size.key);
  }
  if (!missing.empty()) {
    throw core::ConfigError("the model has no size for " + join(missing) +
                            ". Give them, or model.from, a folder with a config.json that does, or name a "
                            "model.preset: " +
                            join(models::preset_names()) + ".");
  }
  for (const Size& size : sizes) model.*size.field = values.integer(size.key);
  if (values.is_null("model.tied")) values.infer("model.tied", spec->tied);
  model.tied = values.flag("model.tied");
  model.degrees = degrees;
  // A degree that contradicts another key has been refused; heads are judged by it all the same.
  if (degrees.tensor == 1) model.degrees.tensor = static_cast<int>(values.integer("parallel.tensor"));
  refuse_keys_of_others(values, model.type);
  model.sparse = build_attention(values, spec->causal, model.sequence);
  values.check([&] { model.adapters = build_adapters(values); });
  model.make = spec->read(values, model);
  return model;
}

void build_data(const Values& values, DataConfig& data) {
  values.check([&] {
    const Value& train = values.at("data.train");
    if (train.value.is_string()) {
      data.train.push_back({1, train.value.get<std::string>(), ""});
      if (data.train[0].prefix.empty()) refuse(train, "is empty; give the prefix of a .bin/.idx pair.");
    } else if (train.value.is_array()) {
      for (const nlohmann::json& entry : train.value) data.train.push_back(source(train, entry));
      if (data.train.empty()) refuse(train, "is empty; give at least one [weight, \"prefix\", \"language\"].");
    }
  });
  values.check([&] {
    const Value& validation = values.at("data.validation");
    if (validation.value.is_string()) {
      data.validation.push_back(validation_source(validation, validation.value));
    } else if (validation.value.is_array()) {
      for (const nlohmann::json& entry : validation.value) {
        data.validation.push_back(validation_source(validation, entry));
      }
      if (data.validation.empty()) refuse(validation, "is empty; give at least one \"prefix\", or leave it out.");
    }
  });
  values.check([&] { build_split(values, data); });
  values.check([&] {
    data.documents = data::document_use(values.choice("data.documents"));
    const models::ModelSpec* spec =
        values.is_null("model.type") ? nullptr : models::find_model_spec(values.text("model.type"));
    if (data.documents != data::DocumentUse::joined && spec != nullptr && !spec->causal)
      refuse(values.at("data.documents"),
             "is not for model.type " + values.text("model.type") + ", whose tokens see all of a sample. Use joined.");
  });
}

}  // namespace zrt::runtime::configuration

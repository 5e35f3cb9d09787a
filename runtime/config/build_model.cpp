#include <cmath>

#include "core/error.h"
#include "runtime/config/build.h"
#include "runtime/config/presets.h"
#include "runtime/config/text.h"

namespace zrt::runtime::configuration {
namespace {

struct Size {
  const char* key;
  int64_t ModelConfig::*field;
  int64_t low, high;
};

// Token ids are 32-bit integers. The other limits keep every product of sizes inside 64 bits.
constexpr Size sizes[] = {
    {"model.layers", &ModelConfig::layers, 1, 100000},  {"model.hidden", &ModelConfig::hidden, 1, 1 << 20},
    {"model.heads", &ModelConfig::heads, 1, 1 << 20},   {"model.sequence", &ModelConfig::sequence, 2, 1 << 24},
    {"model.vocab", &ModelConfig::vocab, 1, INT32_MAX},
};

const ModelConfig* chosen_preset(const Values& values) {
  if (values.is_null("model.preset")) return nullptr;
  const std::string name = values.text("model.preset");
  const ModelConfig* preset = find_preset(name);
  if (preset == nullptr) {
    const std::string near = nearest(name, preset_names());
    refuse(values.at("model.preset"),
           "is no preset; legal: " + join(preset_names()) + "." + (near.empty() ? "" : " Did you mean " + near + "?"));
  }
  return preset;
}

// A preset fills the sizes that were not given. One named on the command line also wins over sizes in the file.
void apply_preset(Values& values, const ModelConfig& preset) {
  const bool wins = values.at("model.preset").from == From::command_line;
  for (const Size& size : sizes) {
    const Value& value = values.at(size.key);
    if (!value.value.is_null()) {
      if (!wins || value.from != From::file) continue;
      values.warnings.push_back(value.path + " = " + printed(value.value) + " (" + value.place +
                                ") gives way to the preset on the command line.");
    }
    values.infer(size.key, preset.*size.field);
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

ModelConfig build_model(Values& values) {
  ModelConfig model;
  model.type = values.text("model.type");
  if (model.type != "gpt2") refuse(values.at("model.type"), "is not supported; legal: \"gpt2\".");
  if (const ModelConfig* preset = chosen_preset(values)) {
    model.preset = preset->preset;
    apply_preset(values, *preset);
  }
  std::vector<std::string> missing;
  for (const Size& size : sizes) {
    if (values.is_null(size.key)) missing.push_back(size.key);
  }
  if (!missing.empty()) {
    throw core::ConfigError("the model has no size for " + join(missing) +
                            ". Give them, or name a model.preset: " + join(preset_names()) + ".");
  }
  for (const Size& size : sizes) model.*size.field = values.integer(size.key, size.low, size.high);
  if (model.hidden % model.heads != 0) {
    refuse(values.at("model.heads"), "does not divide model.hidden = " + std::to_string(model.hidden) +
                                         ": every head takes an equal part. Try a divisor of " +
                                         std::to_string(model.hidden) + ", or another model.hidden.");
  }
  model.dropout = values.real("model.dropout", 0, 1);
  if (model.dropout >= 1) refuse(values.at("model.dropout"), "drops everything; legal: 0 up to, not including, 1.");
  model.tied = values.flag("model.tied");
  return model;
}

DataConfig build_data(const Values& values) {
  DataConfig data;
  const Value& train = values.at("data.train");
  if (train.value.is_string()) {
    data.train.push_back({1, train.value.get<std::string>(), ""});
    if (data.train[0].prefix.empty()) refuse(train, "is empty; give the prefix of a .bin/.idx pair.");
  } else if (train.value.is_array()) {
    for (const nlohmann::json& entry : train.value) data.train.push_back(source(train, entry));
    if (data.train.empty()) refuse(train, "is empty; give at least one [weight, \"prefix\", \"language\"].");
  }
  const Value& validation = values.at("data.validation");
  if (validation.value.is_string()) {
    data.validation.push_back(validation_source(validation, validation.value));
  } else if (validation.value.is_array()) {
    for (const nlohmann::json& entry : validation.value)
      data.validation.push_back(validation_source(validation, entry));
    if (data.validation.empty()) refuse(validation, "is empty; give at least one \"prefix\", or leave it out.");
  }
  return data;
}

}  // namespace zrt::runtime::configuration

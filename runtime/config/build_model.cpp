#include <cmath>
#include <map>

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
constexpr Size llama_sizes[] = {
    {"model.kv_heads", &ModelConfig::kv_heads, 1, 1 << 20},
    {"model.ffn", &ModelConfig::ffn, 1, 1 << 22},
};
constexpr const char* llama_keys[] = {
    "model.kv_heads",
    "model.ffn",
    "model.rope_theta",
    "model.rms_norm_eps",
    "model.rope_scaling.rope_type",
    "model.rope_scaling.factor",
    "model.rope_scaling.low_freq_factor",
    "model.rope_scaling.high_freq_factor",
    "model.rope_scaling.original_max_position_embeddings",
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

// What a preset fixes, by key; null: that the key is not given.
std::map<std::string, nlohmann::json> fixed_by(const ModelConfig& preset) {
  std::map<std::string, nlohmann::json> fixed{{"model.type", preset.type}, {"model.tied", preset.tied}};
  for (const Size& size : sizes) fixed[size.key] = preset.*size.field;
  for (const char* key : llama_keys) fixed[key] = nullptr;
  if (preset.type != "llama") return fixed;
  for (const Size& size : llama_sizes) fixed[size.key] = preset.*size.field;
  fixed["model.rope_theta"] = preset.rope_theta;
  fixed["model.rms_norm_eps"] = preset.rms_norm_eps;
  const models::RopeScaling& scaling = preset.rope_scaling;
  if (scaling.factor == 1) return fixed;
  fixed["model.rope_scaling.rope_type"] = "llama3";
  fixed["model.rope_scaling.factor"] = scaling.factor;
  fixed["model.rope_scaling.low_freq_factor"] = scaling.low_freq_factor;
  fixed["model.rope_scaling.high_freq_factor"] = scaling.high_freq_factor;
  fixed["model.rope_scaling.original_max_position_embeddings"] = scaling.original_positions;
  return fixed;
}

// A preset fills what was not given. One named on the command line also wins over what the file gives.
void apply_preset(Values& values, const ModelConfig& preset) {
  const bool wins = values.at("model.preset").from == From::command_line;
  for (const auto& [key, fixed] : fixed_by(preset)) {
    const Value& value = values.at(key);
    if (value.value == fixed) continue;
    if (!value.value.is_null()) {
      if (!wins || value.from == From::command_line) continue;
      if (value.from == From::file) {
        values.warnings.push_back(value.path + " = " + printed(value.value) + " (" + value.place +
                                  ") gives way to the preset on the command line.");
      }
    }
    values.infer(key, fixed);
  }
  if (values.text("model.type") != preset.type) {
    refuse(values.at("model.type"), "contradicts model.preset = \"" + preset.preset + "\", which is of type \"" +
                                        preset.type + "\". Leave model.type out.");
  }
}

models::RopeScaling build_rope_scaling(Values& values) {
  const auto key = [](const char* name) { return std::string("model.rope_scaling.") + name; };
  if (values.is_null(key("rope_type"))) values.infer(key("rope_type"), "default");
  const std::string type = values.text(key("rope_type"));
  if (type != "default" && type != "llama3") {
    refuse(values.at(key("rope_type")), "is not supported; legal: \"default\" (none) and \"llama3\".");
  }
  const auto open = [&](const char* name, const nlohmann::json& fallback) {
    if (values.is_null(key(name))) {
      if (type == "llama3") values.infer(key(name), fallback);
    } else if (type == "default") {
      refuse(values.at(key(name)),
             "has no effect without " + key("rope_type") + " = \"llama3\". Set it, or remove this.");
    }
  };
  models::RopeScaling scaling;
  open("factor", 8);
  open("low_freq_factor", scaling.low_freq_factor);
  open("high_freq_factor", scaling.high_freq_factor);
  open("original_max_position_embeddings", scaling.original_positions);
  if (type == "default") return scaling;
  scaling.factor = values.real(key("factor"), 1, 1e6);
  scaling.low_freq_factor = values.real(key("low_freq_factor"), 1e-6, 1e6);
  scaling.high_freq_factor = values.real(key("high_freq_factor"), 1e-6, 1e6);
  scaling.original_positions = values.integer(key("original_max_position_embeddings"), 1, 1 << 24);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    refuse(values.at(key("high_freq_factor")),
           "must be larger than low_freq_factor = " + printed(scaling.low_freq_factor) + ".");
  }
  return scaling;
}

// What only Llama has; sizes and heads are known.
void build_llama(Values& values, ModelConfig& model) {
  if (values.is_null("model.kv_heads")) values.infer("model.kv_heads", model.heads);
  if (values.is_null("model.ffn")) values.infer("model.ffn", models::llama_ffn(model.hidden));
  if (values.is_null("model.rope_theta")) values.infer("model.rope_theta", model.rope_theta);
  if (values.is_null("model.rms_norm_eps")) values.infer("model.rms_norm_eps", model.rms_norm_eps);
  for (const Size& size : llama_sizes) model.*size.field = values.integer(size.key, size.low, size.high);
  model.rope_theta = values.real("model.rope_theta", 2, 1e12);
  model.rms_norm_eps = values.real("model.rms_norm_eps", 1e-12, 0.5);
  values.check([&] { model.rope_scaling = build_rope_scaling(values); });
  values.check([&] {
    if (model.dropout != 0) refuse(values.at("model.dropout"), "is not supported; a Llama has no dropout. Legal: 0.");
  });
  if (model.heads % model.kv_heads != 0) {
    refuse(values.at("model.kv_heads"), "does not divide model.heads = " + std::to_string(model.heads) +
                                            ": every head of keys and values serves as many heads of queries. Try a "
                                            "divisor of " +
                                            std::to_string(model.heads) + ", or leave it out.");
  }
  if (model.hidden / model.heads % 2 != 0) {
    refuse(values.at("model.heads"), "makes heads of " + std::to_string(model.hidden / model.heads) +
                                         " elements, but rotary positions need an even number. Try another divisor of "
                                         "model.hidden = " +
                                         std::to_string(model.hidden) + ".");
  }
}

void refuse_llama_keys(const Values& values, const std::string& type) {
  for (const char* key : llama_keys) {
    if (values.is_null(key)) continue;
    values.check([&] {
      refuse(values.at(key), "belongs to model.type = \"llama\", but this model is of type \"" + type +
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

ModelConfig build_model(Values& values) {
  ModelConfig model;
  if (const ModelConfig* preset = chosen_preset(values)) {
    model.preset = preset->preset;
    apply_preset(values, *preset);
  }
  if (values.is_null("model.type")) values.infer("model.type", "gpt2");
  model.type = values.text("model.type");
  values.check([&] {
    model.dropout = values.real("model.dropout", 0, 1);
    if (model.dropout >= 1) refuse(values.at("model.dropout"), "drops everything; legal: 0 up to, not including, 1.");
  });
  if (model.type != "gpt2" && model.type != "llama") {
    refuse(values.at("model.type"), "is not supported; legal: \"gpt2\" and \"llama\".");
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
  if (values.is_null("model.tied")) values.infer("model.tied", model.type == "gpt2");
  model.tied = values.flag("model.tied");
  if (model.type == "llama") {
    build_llama(values, model);
  } else {
    refuse_llama_keys(values, model.type);
  }
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
}

}  // namespace zrt::runtime::configuration

// One type of model owns its keys of the section `model`, its presets, how it is made of them, and its names at Hugging
// Face. models/NAME/spec.cpp holds NAME's; model_specs() lists them all, and nothing else knows their names.
#pragma once
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/keys/key.h"
#include "core/keys/values.h"
#include "models/heads.h"
#include "models/hugging_face_form.h"
#include "models/model.h"

namespace zrt::models {

// The keys that every type has.
struct ModelSizes {
  int64_t layers = 0, hidden = 0, heads = 0, sequence = 0, vocab = 0;
  double dropout = 0;
  bool tied = true;
  Degrees degrees;
  SparseLayers sparse;
  Adapters adapters;
};

using MakeModel = std::function<Model()>;

// Sizes by name: of the type's keys those that are not left at their defaults.
struct Preset {
  std::string name;
  std::map<std::string, nlohmann::json> keys;  // by their paths below `model`: "rope_scaling.factor"
};

struct ModelSpec {
  const char* type = nullptr;                     // model.type, and Hugging Face's model_type
  std::span<const core::keys::Section> sections;  // keys beside ModelSizes: of "model", and whole sections below it
  bool tied = false;                              // where model.tied is left out
  bool causal = true;                             // whether queries see only keys up to their own
  std::vector<Preset> presets;
  // Completes what was left out, and says how the model is made. What is wrong is gathered in `values`, or thrown as
  // ConfigError where it ends the work.
  std::function<MakeModel(core::keys::Values& values, const ModelSizes& sizes)> read;
  HuggingFaceForm hugging_face = {};
};

const std::vector<const ModelSpec*>& model_specs();       // the first is the type of a model that names none
const ModelSpec* find_model_spec(std::string_view type);  // null: there is none
std::string model_types();                                // "\"gpt2\" and \"llama\"", for messages

// A preset and the type it is of; null: there is none.
struct FoundPreset {
  const ModelSpec* spec = nullptr;
  const Preset* preset = nullptr;
};
FoundPreset find_preset(std::string_view name);
std::vector<std::string> preset_names();

// Refuses, for `read`, heads that do not divide model.hidden.
void refuse_uneven_heads(const core::keys::Values& values, const ModelSizes& sizes);
// Refuses, for `read`, a parallel.tensor that does not divide the heads that each key says.
void refuse_uneven_tensor(const core::keys::Values& values, const ModelSizes& sizes, const std::vector<Heads>& all);

}  // namespace zrt::models

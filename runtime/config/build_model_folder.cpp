#include <algorithm>

#include "core/error.h"
#include "core/keys/text.h"
#include "runtime/config/build.h"
#include "runtime/config/model_folder.h"

namespace zrt::runtime::configuration {
namespace {

constexpr const char* from_key = "model.from";

// Keys that say which model is meant. The others may stand beside a folder that says it.
constexpr const char* naming_keys[] = {"model.type",   "model.preset", "model.layers",
                                       "model.hidden", "model.heads",  "model.vocab"};

bool in_section(const Value& value) {
  return value.path.starts_with("model.") || value.path.starts_with("sparse_attention.") ||
         value.path.starts_with("adapters.");
}

// A configuration that does not name a model has that of the folder that it starts from or goes on in.
void infer_folder(Values& values) {
  const auto named = [&](const char* key) { return !values.is_null(key); };
  if (std::any_of(std::begin(naming_keys), std::end(naming_keys), named)) return;
  const std::string resume = optional_text(values, "run.resume");
  const bool goes_on = resume == "auto";
  const std::string folder = goes_on ? optional_text(values, "run.out") : resume;
  if (folder.empty() || (goes_on && !holds_model(folder))) return;
  values.infer(from_key, folder);
}

// A run that goes on needs its folder no more: checkpoints have the sizes.
std::string folder_of_checkpoint(Values& values, const Value& from) {
  if (std::filesystem::is_directory(from.value.get<std::string>())) return "";
  const std::string resume = optional_text(values, "run.resume");
  const std::string run = resume == "auto" ? optional_text(values, "run.out") : resume;
  if (run.empty() || !holds_model(run)) return "";
  values.notes.push_back(shown(from) +
                         " is gone; the sizes of the model are those of the checkpoint that run.resume = " +
                         printed(values.at("run.resume").value) + " goes on from.");
  return run;
}

FolderModel read_folder(Values& values) {
  const Value from = values.at(from_key);
  try {
    if (const std::string other = folder_of_checkpoint(values, from); !other.empty()) return read_model_folder(other);
    return read_model_folder(from.value.get<std::string>());
  } catch (const core::DataError& error) {
    refuse(from, std::string("does not say a model: ") + error.what() + ".");
  }
}

class Filling {
 public:
  Filling(Values& values, const FolderModel& model) : values_(values), model_(model), from_(values.at(from_key)) {}

  void run() {
    if (!values_.is_null("model.preset")) replace_preset();
    replace_type();
    for (const auto& [path, value] : model_.keys) fill(path, value);
    for (const Value& value : std::vector<Value>(values_.all())) {
      if (in_section(value) && !model_.keys.contains(value.path)) judge_addition(value);
    }
    tell();
  }

 private:
  // The command line wins over the file.
  bool wins_over(const Value& value) const { return from_.from == From::command_line && value.from == From::file; }
  void give_way(const Value& value) {
    values_.warnings.push_back(shown(value) + " gives way to model.from on the command line.");
  }

  void replace_preset() {
    const Value preset = values_.at("model.preset");
    if (!wins_over(preset)) {
      refuse(preset, "and " + shown(from_) + " both say the sizes of the model. Leave one of them out.");
    }
    give_way(preset);
    values_.infer("model.preset", nullptr);
  }

  void replace_type() {
    const Value type = values_.at("model.type");
    const nlohmann::json& theirs = model_.keys.at("model.type");
    if (!values_.given(type.path) || type.value.is_null() || type.value == theirs || wins_over(type)) return;
    refuse(type, "contradicts " + shown(from_) + ", which is of type " + printed(theirs) + ". Leave model.type out.");
  }

  void fill(const std::string& path, const nlohmann::json& theirs) {
    const Value* known = values_.find(path);
    const auto value = known == nullptr ? std::nullopt : coerce(known->key->types, false, theirs);
    if (!value) {
      refuse(from_,
             "cannot be taken: " + model_.file + " has " + in_quotes(path) + " = " + printed(theirs) +
                 (known == nullptr ? ", which this zrt does not know." : "; legal: " + legal_text(*known->key) + "."));
    }
    const Value ours = *known;
    const bool given = values_.given(path) && !ours.value.is_null();
    if (given && ours.value == *value) return;
    if (given && !wins_over(ours)) {
      values_.notes.push_back(shown(ours) + " replaces " + printed(*value) + " of " + model_.file + ".");
      return;
    }
    if (given) give_way(ours);
    values_.take(path, *value, From::folder, model_.file);
  }

  // A key of the model that the folder's file says nothing of.
  void judge_addition(const Value& value) {
    const nlohmann::json fallback =
        value.key->fallback == nullptr ? nlohmann::json() : nlohmann::json::parse(value.key->fallback);
    if (value.path == from_key || !values_.given(value.path) || value.value == fallback) return;
    // The configuration says how to train.
    constexpr std::string_view training[] = {"model.dropout", "model.mask_rate", "model.whole_words"};
    if (value.path.starts_with("sparse_attention.") || value.path.starts_with("adapters.")) return;
    if (std::find(std::begin(training), std::end(training), value.path) != std::end(training)) return;
    if (!wins_over(value)) {
      values_.notes.push_back(shown(value) + " is added to what " + model_.file + " says.");
      return;
    }
    give_way(value);
    values_.infer(value.path, fallback);
  }

  void tell() {
    const auto text = [&](const char* key) { return printed(values_.at(std::string("model.") + key).value); };
    const char* why = from_.from == From::inferred ? "run.resume" : from_key;
    values_.notes.push_back("the model is that of " + model_.file + " (" + why + "): " + values_.text("model.type") +
                            ", layers " + text("layers") + ", hidden " + text("hidden") + ", heads " + text("heads") +
                            ", sequence " + text("sequence") + ", vocab " + text("vocab") + ".");
  }

  Values& values_;
  const FolderModel& model_;
  const Value from_;
};

}  // namespace

void use_model_folder(Values& values) {
  const auto taken = [](const Value& value) { return in_section(value) && value.from == From::folder; };
  if (std::any_of(values.all().begin(), values.all().end(), taken)) return;
  if (values.is_null(from_key)) infer_folder(values);
  if (values.is_null(from_key)) return;
  const FolderModel model = read_folder(values);
  // Whoever loads the weights of the same folder warns of the same keys.
  if (optional_text(values, "run.resume") != values.text(from_key)) {
    values.warnings.insert(values.warnings.end(), model.warnings.begin(), model.warnings.end());
  }
  Filling(values, model).run();
}

}  // namespace zrt::runtime::configuration

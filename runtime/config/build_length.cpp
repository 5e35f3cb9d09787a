// The length of a run: run.steps, or what run.epochs, run.tokens or run.samples come to.
#include <cmath>
#include <string>

#include "core/error.h"
#include "runtime/config/build.h"
#include "runtime/data/open_samples.h"

namespace zrt::runtime::configuration {
namespace {

constexpr const char *steps_key = "run.steps", *epochs_key = "run.epochs", *tokens_key = "run.tokens",
                     *samples_key = "run.samples";

int64_t text_tokens(const models::Model& model) {
  return model.masking ? model.masking->text(model.sequence) : model.sequence;
}

// The whole samples of all datasets of data.train, each once; of data.split, the training part.
int64_t epoch_samples(const Values& values, const ModelConfig& config, const DataConfig& data) {
  if (data.train.empty()) refuse(values.at(epochs_key), "needs data.train, whose samples an epoch has.");
  const models::Model model = config.make();
  int64_t samples = 0;
  for (const DataSource& source : data.train) {
    try {
      samples += data::open_samples({.prefix = source.prefix,
                                     .sequence = text_tokens(model),
                                     .vocabulary = model.vocab,
                                     .samples = {},
                                     .order = data::Order::sequential,
                                     .split = source.split,
                                     .part = source.part,
                                     .documents = data.documents})
                     ->size();
    } catch (const core::DataError& error) {
      refuse(values.at(epochs_key), std::string("needs the data itself: ") + error.what() +
                                        ". Where it is not at hand, give run.steps, run.tokens or run.samples.");
    }
  }
  return samples;
}

// The key that says the length; null: none but run.steps. What the command line says overrides a file.
const char* length_key(Values& values) {
  const auto of_command_line = [&](const char* key) { return values.at(key).from == From::command_line; };
  const char* found = values.given(steps_key) ? steps_key : nullptr;
  for (const char* key : {epochs_key, tokens_key, samples_key}) {
    if (values.is_null(key)) continue;
    if (found != nullptr && of_command_line(found) == of_command_line(key)) {
      refuse(values.at(key), std::string("and ") + found + " = " + printed(values.at(found).value) + " (" +
                                 values.at(found).place + ") both say how long the run is. Leave one out.");
    }
    const char* other = found != nullptr && of_command_line(found) ? key : found;
    if (other != nullptr) {
      const char* chosen = other == key ? found : key;
      values.warnings.push_back(shown(values.at(other)) + " gives way to " + shown(values.at(chosen)) + ".");
    }
    if (other != key) found = key;
    if (other != nullptr && other != steps_key) values.infer(other, nullptr);
  }
  return found == steps_key ? nullptr : found;
}

// Samples of the run, and in words.
struct Length {
  double samples = 0;
  std::string text;
};

Length length_of(const Values& values, const std::string& key, const ModelConfig& model, const DataConfig& data) {
  const std::string given = key + " = " + printed(values.at(key).value);
  if (key == samples_key) return {static_cast<double>(values.integer(key)), given};
  if (key == tokens_key) {
    const auto sequence = static_cast<double>(model.sequence);
    return {std::ceil(static_cast<double>(values.integer(key)) / sequence),
            given + " in samples of " + std::to_string(model.sequence)};
  }
  const double epochs = values.real(key);
  if (epochs <= 0) refuse(values.at(key), "must be above 0.");
  const int64_t samples = epoch_samples(values, model, data);
  return {std::ceil(epochs * static_cast<double>(samples)), given + " of " + std::to_string(samples) + " samples"};
}

}  // namespace

void build_length(Values& values, const Config& config, RunConfig& run) {
  const char* key = length_key(values);
  if (key == nullptr) return;
  if (config.pseudo_to_real && config.pseudo_to_real->batch_after) {
    refuse(values.at(key),
           "says no number of steps where the batch changes (pseudo_to_real.batch_after). Give "
           "run.steps.");
  }
  // A run keeps the number that it has resolved, whatever has become of its data and batch.
  if (values.at(steps_key).from != From::inferred) {
    const Length length = length_of(values, key, config.model, config.data);
    const double steps = std::ceil(length.samples / static_cast<double>(config.batch.train));
    if (!(steps >= 1 && steps <= most))
      refuse(values.at(key), "comes to " + printed(steps) + " steps; legal are 1 to 2^40.");
    values.infer(steps_key, static_cast<int64_t>(steps));
    run.samples = static_cast<int64_t>(length.samples);
    run.length = length.text + ": " + std::to_string(static_cast<int64_t>(steps)) + (steps == 1 ? " step" : " steps") +
                 " of " + std::to_string(config.batch.train) + " samples, rounded up";
  }
  run.steps = values.integer(steps_key);
}

}  // namespace zrt::runtime::configuration

#include "tools/commands/plan_config.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "runtime/config/model_folder.h"

namespace zrt::tools {
namespace {

constexpr int64_t usual_sequence = 4096;  // of training; models that can read more rarely train on more

std::string text_of(const po::variables_map& values, const char* option) {
  return values.count(option) ? values[option].as<std::string>() : std::string();
}

runtime::Config folder_config(const std::string& folder, const po::variables_map& values) {
  const int ranks = values["ranks"].as<int>();
  const int stage = ranks > 1 ? 3 : 0;
  nlohmann::json config{{"train_micro_batch_size_per_gpu", 1},
                        {"bf16", {{"enabled", true}}},
                        {"zero_optimization", {{"stage", stage}}},
                        {"optimizer", {{"type", "AdamW"}}},
                        {"model", {{"from", folder}}}};
  std::string sequence = "samples as long as the model allows";
  const auto found = runtime::configuration::read_model_folder(folder);
  const auto length = found.keys.find("model.sequence");  // of another type it is refused with the other keys
  if (length != found.keys.end() && length->second.is_number_integer() &&
      length->second.get<int64_t>() > usual_sequence) {
    config["model"]["sequence"] = usual_sequence;
    sequence = fmt::format("samples of {} tokens", usual_sequence);
  }
  spdlog::info(
      "only a folder is given, so this is the plan of training all weights of its model by AdamW in bf16 with fp32 "
      "masters at ZeRO stage {}, with one sample at a time on a rank and {}. --set changes any key, such as "
      "model.sequence, train_micro_batch_size_per_gpu or zero_optimization.stage.",
      stage, sequence);
  return runtime::parse_config(config.dump(), folder, config_settings(values), ranks);
}

}  // namespace

runtime::Config plan_config(const po::variables_map& values) {
  const std::string config = text_of(values, "CONFIG"), folder = text_of(values, "model");
  const bool is_folder = !config.empty() && std::filesystem::is_directory(config);
  if (is_folder && !folder.empty()) {
    throw core::UsageError(fmt::format(
        "'{}' is a folder and --model names '{}': of which model is the plan to be? Name one", config, folder));
  }
  if (config.empty() && folder.empty()) {
    throw core::UsageError(
        "CONFIG is missing; usage: zrt plan CONFIG, or zrt plan DIR for a folder with a model (see --help)");
  }
  if (config.empty() || is_folder) return folder_config(is_folder ? config : folder, values);
  return runtime::load_config(config, config_settings(values, {{"model", "model.from"}}), values["ranks"].as<int>());
}

}  // namespace zrt::tools

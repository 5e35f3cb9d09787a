#include "tools/commands/plan_answers.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "runtime/plan/setup.h"

namespace zrt::tools {

runtime::Price price_of(const po::variables_map& values, bool has_cluster) {
  const runtime::Price price{values["tokens"].as<double>(), values["price"].as<double>()};
  for (const auto& [option, number] : {std::pair("tokens", price.tokens), std::pair("price", price.per_gpu_hour)}) {
    if (std::isfinite(number) && number >= 0) continue;
    throw core::UsageError(fmt::format("--{} is {}; legal is a number of at least 0", option, number));
  }
  if (price.per_gpu_hour > 0 && price.tokens == 0) {
    throw core::UsageError("--price is of a GPU and hour: give --tokens, too, to say how many hours there are");
  }
  if (price.tokens > 0 && !has_cluster) {
    throw core::UsageError(
        "--tokens asks for time, which no plan predicts without a cluster: give --cluster FILE or NAME, such as "
        "dgx-a100");
  }
  return price;
}

std::optional<runtime::Extreme> answer_find(const po::variables_map& values, runtime::Config& config,
                                            const runtime::Cluster* cluster) {
  if (!values.count("find")) return std::nullopt;
  if (config.pseudo_to_real) {
    throw core::UsageError("--find looks at one model; a run with pseudo_to_real has two lives. Plan each by itself");
  }
  const models::Model model = config.model.make();
  const std::vector<std::string> phases = runtime::training_phases(config, "init");
  runtime::Extreme found = runtime::find_extreme(values["find"].as<std::string>(), config, model, phases, cluster);
  if (found.ranks == 0) return found;
  found.text += fmt::format(": --ranks {}", found.ranks);
  std::vector<std::string> sets;
  for (const auto& [key, value] : found.changes) {
    sets.push_back(key + "=" + value);
    found.text += fmt::format(" --set {}={}", key, value);
  }
  config = runtime::reconfigured(config, sets, found.ranks);
  return found;
}

nlohmann::ordered_json find_json(const runtime::Extreme& found) {
  if (found.ranks == 0) return nullptr;
  nlohmann::ordered_json changes = nlohmann::ordered_json::object();
  for (const auto& [key, value] : found.changes) changes[key] = nlohmann::ordered_json::parse(value);
  return {{"value", found.value}, {"ranks", found.ranks}, {"changes", changes}};
}

}  // namespace zrt::tools

#include "runtime/train/lives.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "core/error.h"

namespace zrt::runtime {

using checkpoint::Json;

Plateau::Plateau(const PlateauRule& rule, const Json& before) : rule_(rule) {
  if (!before.is_object()) return;
  sum_ = before.value("sum", 0.0), steps_ = before.value("steps", int64_t{0});
  if (before.contains("before")) before_ = before["before"].get<double>();
}

bool Plateau::reached(double loss) {
  sum_ += loss;
  if (++steps_ < rule_.steps) return false;
  const double mean = sum_ / static_cast<double>(steps_);
  const bool flat = before_ && mean > *before_ * (1 - rule_.gain);
  before_ = mean, sum_ = 0, steps_ = 0;
  return flat;
}

Json Plateau::json() const {
  Json json{{"sum", sum_}, {"steps", steps_}};
  if (before_) json["before"] = *before_;
  return json;
}

models::Model with_shared_layers(const models::Model& model, const PseudoToReal& rules) {
  models::Model shared = models::share(model, rules.sharing);
  for (const std::string& pattern : rules.patterns) {
    std::string example;
    bool found = false;
    for (const std::shared_ptr<const models::Block>& block : model.blocks) {
      for (const models::Param& param : block->params()) {
        if (models::layer_of(param.name) < 0) continue;
        found = found || fnmatch(pattern.c_str(), param.name.c_str(), 0) == 0;
        example = param.name;
      }
    }
    if (found) continue;
    throw core::ConfigError(
        fmt::format("pseudo_to_real.private: '{}' names no parameter of a layer; legal are norm, bias and patterns of "
                    "names such as '{}', in which * stands for any text",
                    pattern, example));
  }
  return shared;
}

RunLife life_of(const Config& config, const models::Model& model, const checkpoint::Reader* resumed) {
  const Json made_by =
      resumed && resumed->manifest().made_by.is_object() ? resumed->manifest().made_by : Json::object();
  const int64_t step = resumed && !config.run.load_module_only ? resumed->manifest().step : 0;
  RunLife real{model, {}, config.run.steps, 0, {}};
  if (!config.pseudo_to_real) {
    if (resumed && resumed->sharing()) real.delinked_at = step;
    if (step > 0 && made_by.contains(delinked_at)) real.delinked_at = made_by[delinked_at].get<int64_t>();
    return real;
  }
  const PseudoToReal& rules = *config.pseudo_to_real;
  const bool due = made_by.value(delink_due, false) || (rules.at_step && step >= *rules.at_step);
  if (made_by.contains(delinked_at)) {
    real.delinked_at = made_by[delinked_at].get<int64_t>();
    return real;
  }
  if (step > 0 && !resumed->sharing()) {
    throw core::ConfigError(
        fmt::format("{}: its layers share no parameters, and by pseudo_to_real those of step {} do. Resume without "
                    "pseudo_to_real, or "
                    "set run.load_module_only to begin with its weights",
                    resumed->folder().string(), step));
  }
  if (step > 0 && *resumed->sharing() != rules.sharing) {
    throw core::ConfigError(fmt::format(
        "{}: other layers share their parameters there ({}) than pseudo_to_real says ({})", resumed->folder().string(),
        checkpoint::sharing_json(*resumed->sharing()).dump(), checkpoint::sharing_json(rules.sharing).dump()));
  }
  if (step > 0 && due) {
    real.delinked_at = step;
    return real;
  }
  RunLife shared{with_shared_layers(model, rules), rules.sharing, config.run.steps, 0, {}};
  if (rules.at_step && *rules.at_step < config.run.steps) {
    shared.until = *rules.at_step;
    shared.later_samples = (config.run.steps - *rules.at_step) * rules.batch_after.value_or(config.batch.train);
  }
  return shared;
}

Config after_delink(const Config& config) {
  Settings sets{"run.resume=auto", "run.load_module_only=false"};
  std::vector<std::string> without;
  if (config.pseudo_to_real->batch_after) {
    sets.emplace_back(fmt::format("train_batch_size={}", *config.pseudo_to_real->batch_after));
    without.emplace_back("gradient_accumulation_steps");
  }
  return into_folder(reconfigured(config, sets, config.ranks, without), config.run.out);
}

double rate_factor(const PseudoToReal& rules, const RunLife& life, int64_t step) {
  if (!life.delinked_at) return 1;
  const auto taken = static_cast<double>(step - *life.delinked_at + 1);
  const double warm = rules.rewarm_steps > 0 ? std::min(1.0, taken / static_cast<double>(rules.rewarm_steps)) : 1;
  return rules.lr_scale * warm;
}

}  // namespace zrt::runtime

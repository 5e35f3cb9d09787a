#include "core/keys/text.h"
#include "optimizer/spec.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {

namespace {

[[noreturn]] void refuse_entry(const Value& groups, const nlohmann::json& entry, const std::string& what) {
  refuse(groups, "has the entry " + printed(entry) + ", " + what +
                     R"(; legal: {"match": ["*.bias"], "weight_decay": 0, "lr_scale": 1}, either of the last two.)");
}

// "*.bias", or a list of such.
std::vector<std::string> patterns(const Value& groups, const nlohmann::json& entry) {
  const nlohmann::json match = entry.value("match", nlohmann::json());
  const nlohmann::json list = match.is_string() ? nlohmann::json::array({match}) : match;
  std::vector<std::string> all;
  for (const nlohmann::json& pattern : list) {
    if (!list.is_array() || !pattern.is_string() || pattern == "") break;
    all.push_back(pattern.get<std::string>());
  }
  if (all.empty() || all.size() != list.size()) {
    refuse_entry(groups, entry, "whose \"match\" is no list of parameters' names, with * for any characters");
  }
  return all;
}

std::vector<optimizer::ParamGroup> read_groups(const Value& groups) {
  std::vector<optimizer::ParamGroup> all;
  if (groups.value.is_null()) return all;
  for (const nlohmann::json& entry : groups.value) {
    if (!entry.is_object()) refuse_entry(groups, entry, "which is no object");
    optimizer::ParamGroup group{patterns(groups, entry), {}, 1};
    for (const auto& [key, value] : entry.items()) {
      if (key == "match" || key.starts_with('_')) continue;
      if (key != "weight_decay" && key != "lr_scale") refuse_entry(groups, entry, "whose key '" + key + "' is unknown");
      const bool good = value.is_number() && value >= 0 && value <= optimizer::largest_rate;
      if (!good) refuse_entry(groups, entry, "whose '" + key + "' is no number from 0 to 1e6");
      if (key == "weight_decay") group.weight_decay = value.get<double>();
      if (key == "lr_scale") group.lr_scale = value.get<double>();
    }
    if (!group.weight_decay && group.lr_scale == 1) refuse_entry(groups, entry, "which changes nothing");
    all.push_back(std::move(group));
  }
  return all;
}

}  // namespace

OptimizerConfig build_optimizer(Values& values) {
  const std::string lr = "optimizer.params.lr";
  // DeepSpeed leaves a missing optimizer to its caller's code; here it is AdamW with DeepSpeed's defaults.
  if (values.is_null("optimizer.type")) {
    values.infer("optimizer.type", optimizer::default_type);
    values.check([&] {
      const Value& rate = values.at(lr);
      values.warnings.push_back(std::string("optimizer.type is not given: ") + optimizer::default_type +
                                " is used, with " + lr + " = " + printed(rate.value) + " (" +
                                std::string(from_name(rate.from)) + ").");
    });
  }
  const std::string type = values.text("optimizer.type");
  OptimizerConfig optimizer;
  // A type that is none has been refused already.
  if (const optimizer::OptimizerSpec* spec = optimizer::find_optimizer_spec(type)) {
    values.check([&] { optimizer.algorithm = spec->read(values, in_lower_case(type)); });
  }
  values.check([&] {
    optimizer.groups = read_groups(values.at("optimizer.groups"));
    optimizer.algorithm = optimizer::make_grouped(optimizer.algorithm, optimizer.groups);
  });
  values.check([&] { optimizer.lr = values.is_null(lr) ? 0 : values.real(lr); });
  return optimizer;
}

}  // namespace zrt::runtime::configuration

// The list parameter_groups: names of parameters, and what is theirs alone.
#include <algorithm>

#include "core/keys/text.h"
#include "optimizer/spec.h"
#include "runtime/config/build.h"
#include "runtime/config/resolve.h"

namespace zrt::runtime::configuration {
namespace {

using nlohmann::json;
using optimizer::OptimizerSpec;

class GroupReader {
 public:
  GroupReader(Values& values, double run_rate) : values_(values), list_(values.at(path)), run_rate_(run_rate) {}

  std::vector<optimizer::ParamGroup> read() {
    std::vector<optimizer::ParamGroup> all;
    if (list_.value.is_null()) return all;
    for (const json& entry : list_.value) {
      entry_ = &entry;
      if (!entry.is_object()) refuse_entry("which is no object");
      all.push_back(read_group(entry));
    }
    return all;
  }

 private:
  static constexpr const char* path = "parameter_groups";

  [[noreturn]] void refuse_entry(const std::string& what) const {
    refuse(list_,
           "has the entry " + printed(*entry_) + ", " + what +
               R"(; legal: {"match": ["*.bias"], "trainable": true, "weight_decay": 0, "lr_scale": 1, "optimizer": )"
               R"("AdamW"}, any of the last four, the last one also )"
               R"({"type": "AdamW", "params": {"betas": [0.9, 0.95]}}.)");
  }

  optimizer::ParamGroup read_group(const json& entry) {
    optimizer::ParamGroup group;
    group.match = patterns(entry);
    for (const auto& [key, value] : entry.items()) {
      if (key == "match" || key.starts_with('_')) continue;
      if (key == "weight_decay") {
        group.weight_decay = number(key, value);
      } else if (key == "lr_scale") {
        group.lr_scale *= number(key, value);
      } else if (key == "trainable") {
        if (!value.is_boolean()) refuse_entry("whose 'trainable' is neither true nor false");
        group.trainable = value.get<bool>();
      } else if (key == "optimizer") {
        group.optimizer = read_optimizer(value, group.lr_scale);
      } else {
        refuse_entry("whose key '" + key + "' is unknown");
      }
    }
    const bool updated_otherwise = group.weight_decay || group.lr_scale != 1 || group.optimizer;
    if (!updated_otherwise && !group.trainable) refuse_entry("which changes nothing");
    if (updated_otherwise && group.trainable == false) {
      refuse_entry("which says how parameters are updated that are not trainable");
    }
    return group;
  }

  // "*.bias", or a list of such.
  std::vector<std::string> patterns(const json& entry) const {
    const json match = entry.value("match", json());
    const json list = match.is_string() ? json::array({match}) : match;
    std::vector<std::string> all;
    for (const json& pattern : list) {
      if (!list.is_array() || !pattern.is_string() || pattern == "") break;
      all.push_back(pattern.get<std::string>());
    }
    if (all.empty() || all.size() != list.size()) {
      refuse_entry("whose \"match\" is no list of parameters' names, with * for any characters");
    }
    return all;
  }

  double number(const std::string& key, const json& value) const {
    const bool good = value.is_number() && value >= 0 && value <= optimizer::largest_rate;
    if (!good) refuse_entry("whose '" + key + "' is no number from 0 to 1e6");
    return value.get<double>();
  }

  // "AdamW", or like the section `optimizer`. Equal ones are one: they decide alike.
  optimizer::OptimizerPtr read_optimizer(const json& value, double& lr_scale) {
    const json object = value.is_string() ? json{{"type", value}} : value;
    const bool good = object.is_object() && object.contains("type") && object["type"].is_string() &&
                      std::all_of(object.items().begin(), object.items().end(),
                                  [](const auto& item) { return item.key() == "type" || item.key() == "params"; });
    const json params = good ? object.value("params", json::object()) : json();
    if (!good || !params.is_object()) refuse_entry("whose optimizer has another form");
    const std::string type = object["type"].get<std::string>();
    const OptimizerSpec* spec = optimizer::find_optimizer_spec(type);
    if (spec == nullptr) refuse_entry("whose optimizer is none of " + optimizer::optimizer_types());
    for (const char* form : {"memory.moments", "memory.master"}) {
      if (spec->forms || values_.text(form) == "fp32") continue;
      refuse_entry("whose optimizer keeps fp32 alone, while " + shown(values_.at(form)));
    }
    auto known = std::find_if(made_.begin(), made_.end(), [&](const Made& one) { return one.from == object; });
    if (known == made_.end()) known = made_.insert(known, make(object, *spec, type, params));
    // Rates of groups are multiples of the run's, which a schedule moves.
    if (!(run_rate_ > 0)) refuse_entry("whose optimizer needs a rate, while optimizer.params.lr, its unit, is none");
    if (const char* own = known->optimizer->rate_setting()) {
      refuse_entry(std::string("whose optimizer makes its rate itself, by ") + own + "; set that to false and give lr");
    }
    if (known->rate) lr_scale *= *known->rate / run_rate_;
    return known->optimizer;
  }

  struct Made {
    json from;
    optimizer::OptimizerPtr optimizer;
    std::optional<double> rate;  // where it has one of its own
  };

  // Makes an optimizer by the keys of its spec, read as if they stood in the section `optimizer`.
  Made make(const json& from, const OptimizerSpec& spec, const std::string& type, const json& params) const {
    Values own;
    own.add(values_.at("memory.moments"));
    own.add({"optimizer.type", type, list_.from, list_.place, list_.line});
    for (const auto& item : params.items()) {
      const bool known =
          std::any_of(spec.keys.begin(), spec.keys.end(), [&](const Key& key) { return key.name == item.key(); });
      if (!known) refuse_entry("whose optimizer has no parameter '" + item.key() + "'");
    }
    for (const Key& key : spec.keys) {
      const json fallback = key.fallback ? json::parse(key.fallback) : json();
      const std::string name = std::string("optimizer.params.") + key.name;
      const auto given = params.find(key.name);
      if (given == params.end()) {
        if (key.fallback) own.add({name, fallback, From::fallback, "the default", 0, &key});
        continue;
      }
      const auto value = coerce(fallback.is_null() ? key.types | t_null : key.types, false, *given);
      if ((key.types & t_never) != 0 || !value || (key.handling == Handling::refused && !harmless(key, *value))) {
        refuse_entry("whose optimizer's '" + name + "' is not legal" + (*key.note ? std::string(": ") + key.note : ""));
      }
      own.add({name, *value, list_.from, std::string(path) + ", " + list_.place, list_.line, &key});
    }
    optimizer::OptimizerPtr optimizer;
    own.check([&] { optimizer = spec.read(own, in_lower_case(type)); });
    if (!own.problems.empty()) {
      try {
        own.problems.raise(path);
      } catch (const core::ConfigError& error) {
        refuse_entry(std::string("whose optimizer is refused: ") + error.what());
      }
    }
    values_.warnings.insert(values_.warnings.end(), own.warnings.begin(), own.warnings.end());
    const Value* lr = own.find("optimizer.params.lr");
    const bool rated = lr && lr->from != From::fallback && lr->value.is_number();
    return {from, optimizer, rated ? std::optional(lr->value.get<double>()) : std::nullopt};
  }

  Values& values_;
  const Value& list_;
  const double run_rate_;
  const json* entry_ = nullptr;
  std::vector<Made> made_;
};

}  // namespace

std::vector<optimizer::ParamGroup> build_parameter_groups(Values& values, double run_rate) {
  return GroupReader(values, run_rate).read();
}

}  // namespace zrt::runtime::configuration

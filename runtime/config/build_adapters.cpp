// The section "adapters".
#include "core/keys/text.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {

models::Adapters build_adapters(const Values& values) {
  models::Adapters adapters;
  const int64_t rank = values.integer("adapters.rank");
  adapters.alpha = values.real("adapters.alpha");
  adapters.by_root = values.flag("adapters.rslora");
  adapters.dropout = static_cast<float>(values.real("adapters.dropout"));
  if (values.is_null("adapters.type")) {
    for (const char* key :
         {"adapters.rank", "adapters.alpha", "adapters.rslora", "adapters.dropout", "adapters.targets"}) {
      if (!values.given(key)) continue;
      refuse(values.at(key), "has no effect without adapters.type. Add \"type\": \"lora\", or leave the section out.");
    }
    return {};
  }
  values.choice("adapters.type");
  adapters.rank = rank;
  const Value& targets = values.at("adapters.targets");
  if (targets.value.is_null()) return adapters;
  for (const nlohmann::json& target : targets.value) {
    if (!target.is_string() || target == "") {
      refuse(targets, "has the entry " + printed(target) +
                          "; legal entries are names of linear layers, such as \"q_proj\", and patterns of them.");
    }
    adapters.targets.push_back(target.get<std::string>());
  }
  if (adapters.targets.empty()) refuse(targets, "is empty; name layers, or leave it out for all of them.");
  return adapters;
}

}  // namespace zrt::runtime::configuration

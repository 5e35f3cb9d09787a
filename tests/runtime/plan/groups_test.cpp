// Groups of parameters, from the configuration to the units of a run.
#include "optimizer/groups.h"

#include "runtime/plan/setup.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::groups_test {

using namespace zrt::runtime;

namespace {

Config with_groups(const std::string& groups, const std::string& type = "AdamW") {
  return parsed(R"("optimizer": {"type": ")" + type + R"(", "params": {"weight_decay": 0.1}}, "parameter_groups": )" +
                groups + ",");
}

std::string refusal(const std::string& groups) {
  return error_of([&] {
    const Config config = with_groups(groups);
    make_layout(config, config.model.make());
  });
}

}  // namespace

TEST_CASE("units hold parameters of one group of the configuration, and the first that matches counts") {
  const Config config = with_groups(
      R"([{"match": "*ln_*", "weight_decay": 0}, {"match": ["*.bias", "h.1.*"], "lr_scale": 0.5, "_why": "to see"}])");
  const models::Model model = config.model.make();
  const Layout layout = make_layout(config, model);
  for (const optimizer::Unit& unit : layout.units.units) {
    for (const optimizer::UnitParam& place : unit.params) {
      const std::string& name = place.param->name;
      INFO(name);
      const bool gain = name.find("ln_") != std::string::npos;
      CHECK(unit.group == (gain ? 1 : name.ends_with(".bias") || name.starts_with("h.1.") ? 2 : 0));
    }
  }
}

TEST_CASE("groups that say nothing, cannot be meant, or take no parameter are refused") {
  for (const char* bad :
       {R"([1])", R"([[]])", R"([{}])", R"([{"match": {"a": 1}, "lr_scale": 2}])",
        R"([{"match": null, "lr_scale": 2}])", R"([{"match": "*", "lr_scale": 1e300}])", R"([{"weight_decay": 0}])",
        R"([{"match": [], "weight_decay": 0}])", R"([{"match": ["a", 1], "weight_decay": 0}])",
        R"([{"match": "", "weight_decay": 0}])", R"([{"match": "*"}])", R"([{"match": "*", "weight_decay": -1}])",
        R"([{"match": "*", "lr_scale": "1"}])", R"([{"match": "*", "lr": 1}])"}) {
    INFO(bad);
    CHECK(has(refusal(bad), "parameter_groups"));
    CHECK(has(refusal(bad), "legal"));
  }
  CHECK(has(refusal(R"([{"match": "*", "lr": 1}])"), "'lr' is unknown"));
  const std::string none = refusal(R"([{"match": "*", "lr_scale": 2}, {"match": "*.bias", "weight_decay": 0}])");
  CHECK(has(none, "parameter_groups[1] takes no parameter"));
  CHECK(has(none, "*.bias"));
  CHECK(has(none, "h.0.ln_1.weight"));
  CHECK(has(refusal("{}"), "parameter_groups"));
  CHECK(with_groups("[]").optimizer.groups.empty());
  CHECK(with_groups("null").optimizer.groups.empty());
}

}  // namespace zrt::groups_test

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
    make_layouts(config, config.model.make());
  });
}

}  // namespace

TEST_CASE("units hold parameters of one group of the configuration, and the first that matches counts") {
  const Config config = with_groups(
      R"([{"match": "*ln_*", "weight_decay": 0}, {"match": ["*.bias", "h.1.*"], "lr_scale": 0.5, "_why": "to see"}])");
  const models::Model model = config.model.make();
  const Layout layout = make_layouts(config, model).front();
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

TEST_CASE("a rate inside a group's optimizer is its own, as a multiple of the run's") {
  const auto facts = [](const std::string& groups, uint32_t group) {
    return with_groups(groups).optimizer.algorithm->facts(group);
  };
  // The run's rate is AdamW's default, 0.001.
  CHECK(facts(R"([{"match": "wte*", "optimizer": {"type": "Lion", "params": {"lr": 0.0005}}}])", 1).lr_scale ==
        Approx(0.5));
  CHECK(facts(R"([{"match": "wte*", "lr_scale": 4, "optimizer": "Lion"}])", 1).lr_scale == Approx(4));
  const std::string muon =
      R"([{"match": "*", "optimizer": {"type": "Muon", "params": {"muon_lr": 0.02, "adam_lr": 3e-4}}}])";
  CHECK(facts(muon, 1).optimizer == std::string("AdamW"));
  CHECK(facts(muon, 1).lr_scale == Approx(0.3));
  CHECK(facts(muon, 2).optimizer == std::string("Muon"));
  CHECK(facts(muon, 2).lr_scale == Approx(20));
}

TEST_CASE("a group's optimizer that makes its rate itself, or has none, is refused") {
  CHECK(has(refusal(R"([{"match": "wte*", "optimizer": "Adafactor"}])"), "makes its rate itself"));
  CHECK(has(refusal(R"([{"match": "wte*", "optimizer": "Muon"}])"), "optimizer.params.lr is missing"));
  CHECK(has(refusal(R"([{"match": "wte*", "optimizer": {"type": "Lion", "params": {"beta": 1}}}])"),
            "no parameter 'beta'"));
  CHECK(has(refusal(R"([{"match": "wte*", "optimizer": {"type": "Lion", "params": {"betas": [2, 0]}}}])"), "betas"));
  CHECK(has(refusal(R"([{"match": "wte*", "optimizer": "Lionel"}])"), "is none of Adam"));
  CHECK(has(
      error_of([] {
        parsed(R"("optimizer": {"type": "Adafactor"}, "parameter_groups": [{"match": "wte*", "optimizer": "AdamW"}],)");
      }),
      "needs a rate"));
  std::string five = "[";
  for (const char* type : {"Adam", "SGD", "Lion", "Adam"}) {
    const std::string decay = five.size() < 40 ? "0.5" : "0.25";
    five += R"({"match": "wte*", "optimizer": {"type": ")" + std::string(type) + R"(", "params": {"weight_decay": )" +
            decay + "}}},";
  }
  five.back() = ']';
  CHECK(has(refusal(five), "at most 4 optimizers side by side"));
}

}  // namespace zrt::groups_test

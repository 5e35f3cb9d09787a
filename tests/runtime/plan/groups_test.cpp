// Groups of parameters, from the configuration to the units of a run.
#include "optimizer/groups.h"

#include <map>

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
  CHECK(facts(R"([{"match": "wte*", "lr_scale": 0.1, "optimizer": {"type": "AdamW", "params": {"lr": 0.002}}}])", 1)
            .lr_scale == Approx(0.2));
  const std::string muon =
      R"([{"match": "*", "optimizer": {"type": "Muon", "params": {"muon_lr": 0.02, "adam_lr": 3e-4}}}])";
  CHECK(facts(muon, 1).optimizer == std::string("AdamW"));
  CHECK(facts(muon, 1).lr_scale == Approx(0.3));
  CHECK(facts(muon, 2).optimizer == std::string("Muon"));
  CHECK(facts(muon, 2).lr_scale == Approx(20));
}

TEST_CASE("a group's optimizer keeps its states in the forms in which it would as the only one of a run") {
  // Names the states that each weight of a layer has, and their forms.
  const auto forms_of = [](const Config& config) {
    const models::Model model = config.model.make();
    std::map<std::string, std::vector<std::pair<std::string, core::Form>>> all;
    const Layout layout = make_layouts(config, model).front();
    for (const optimizer::Unit& unit : layout.units.units) {
      for (const optimizer::UnitParam& place : unit.params) {
        if (!place.param->name.starts_with("h.")) continue;
        for (const optimizer::UnitState& state : config.optimizer.algorithm->states(unit)) {
          all[place.param->name].push_back({state.kind, state.form});
        }
      }
    }
    return all;
  };
  for (const char* moments : {"fp32", "bf16", "int8"}) {
    for (const char* group :
         {R"({"type": "AdamW", "params": {"lr": 0.01}})", R"({"type": "Lion", "params": {"lr": 0.01}})",
          R"({"type": "SGD", "params": {"lr": 0.01, "momentum": 0.9}})",
          R"({"type": "Muon", "params": {"lr": 0.01}})"}) {
      for (const char* run : {"AdamW", "SGD"}) {
        CAPTURE(moments, group, run);
        const std::string memory = R"("memory": {"moments": ")" + std::string(moments) + "\"},";
        const auto grouped = forms_of(parsed(
            memory + R"("optimizer": {"type": ")" + run +
            R"(", "params": {"lr": 0.02}}, "parameter_groups": [{"match": "h.*", "optimizer": )" + group + "}],"));
        CHECK(!grouped.empty());
        CHECK(grouped == forms_of(parsed(memory + R"("optimizer": )" + group + ",")));
      }
    }
  }
}

TEST_CASE("a group's optimizer that keeps fp32 alone is refused beside other forms, of moments and of weights") {
  const std::string group = R"([{"match": "h.*", "optimizer": {"type": "Adafactor", "params": {"lr": 0.01,
                                 "relative_step": false}}}])";
  for (const std::string form : {"moments", "master"}) {
    const auto parse = [&](const std::string& value) {
      return parsed(R"("bf16": {"enabled": true}, "memory": {")" + form + R"(": ")" + value +
                    R"("}, "optimizer": {"type": "AdamW", "params": {"lr": 0.02}}, "parameter_groups": )" + group +
                    ",");
    };
    CAPTURE(form);
    CHECK(parse("fp32").optimizer.groups.size() == 1);
    CHECK(has(error_of([&] { parse(form == "master" ? "none" : "bf16"); }), "memory." + form));
  }
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

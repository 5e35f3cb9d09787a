// Optimizers and schedules as DeepSpeed writes them: each with its parameters and their defaults.

#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_optimizers_test {

using namespace zrt::runtime;
using zrt::optimizer::ScheduleType;
using zrt::optimizer::WarmupType;

TEST_CASE("the schedule's first step may be given as the default it is") {
  for (const char* type : {"WarmupLR", "LRRangeTest"}) {
    const std::string scheduler = R"("scheduler": {"type": ")" + std::string(type) + R"(", "params": )";
    CHECK(parsed(scheduler + R"({"last_batch_iteration": -1}},)").warnings == parsed(scheduler + "{}},").warnings);
    CHECK(has(parse_error(scheduler + R"({"last_batch_iteration": 9}},)"), "run.resume"));
  }
}

TEST_CASE("Adam decouples its decay unless adam_w_mode is false, AdamW always does") {
  const auto decoupled = [](const std::string& type, const std::string& params) {
    return parsed(R"("optimizer": {"type": ")" + type + R"(", "params": {)" + params + "}},");
  };
  CHECK(adam_of(decoupled("Adam", "")).decoupled);
  CHECK(!adam_of(decoupled("adam", R"("adam_w_mode": false)")).decoupled);
  CHECK(adam_of(decoupled("ADAMW", R"("adam_w_mode": false)")).decoupled);
  CHECK(warned(decoupled("AdamW", R"("adam_w_mode": false)"), "adam_w_mode = false"));
  CHECK(!adam_of(decoupled("Adam", R"("bias_correction": false)")).bias_correction);
}

TEST_CASE("schedules carry DeepSpeed's parameters") {
  const auto schedule = [](const std::string& type, const std::string& params) {
    return parsed(R"("optimizer": {"type": "Adam", "params": {"lr": 0.5}}, "scheduler": {"type": ")" + type +
                  R"(", "params": {)" + params + "}},")
        .schedule;
  };
  const LearningRate warm = schedule("WarmupLR", R"("warmup_min_lr": [0.1], "warmup_type": "linear")");
  CHECK(warm.type == ScheduleType::warmup);
  CHECK(warm.warmup_type == WarmupType::linear);
  CHECK(warm.warmup_min_lr == 0.1);
  CHECK(warm.warmup_max_lr == 0.5);  // null: the optimizer's rate
  CHECK(warm.warmup_num_steps == 1000);
  const LearningRate decay = schedule("WarmupDecayLR", R"("total_num_steps": 9, "warmup_num_steps": 3)");
  CHECK(decay.type == ScheduleType::warmup_decay);
  CHECK(decay.warmup_max_lr == 0.001);
  CHECK(decay.total_num_steps == 9);
  const LearningRate cosine = schedule("WarmupCosineLR", R"("total_num_steps": 9, "warmup_min_ratio": 0.2)");
  CHECK(cosine.warmup_min_ratio == 0.2);
  CHECK(cosine.lr == 0.5);
}

TEST_CASE("every optimizer carries its parameters, with defaults") {
  const auto optimizer = [](const std::string& type, const std::string& params) {
    return parsed(R"("optimizer": {"type": ")" + type + R"(", "params": {)" + params + "}},").optimizer;
  };
  using namespace zrt::optimizer;
  const auto sgd = optimizer("SGD", R"("lr": 0.5, "momentum": 0.9, "nesterov": true, "weight_decay": 0.1)");
  CHECK(sgd.lr == 0.5);
  CHECK(find_params<SgdParams>(sgd.algorithm)->momentum == 0.9f);
  CHECK(find_params<SgdParams>(sgd.algorithm)->nesterov);
  CHECK(find_params<SgdParams>(sgd.algorithm)->weight_decay == 0.1f);
  CHECK(find_params<SgdParams>(optimizer("sgd", R"("momentum": 0.5, "dampening": 0.25)").algorithm)->dampening ==
        0.25f);
  const auto lion = optimizer("Lion", R"("betas": [0.95, 0.98])");
  CHECK(lion.lr == 1e-3);
  CHECK(find_params<LionParams>(lion.algorithm)->beta2 == 0.98f);
  const auto adafactor = optimizer("Adafactor", "");
  CHECK(adafactor.lr == 0);
  const AdafactorParams defaults = *find_params<AdafactorParams>(adafactor.algorithm);
  CHECK(defaults.relative_step);
  CHECK(defaults.scale_parameter);
  CHECK(!defaults.momentum);
  CHECK(defaults.eps1 == 1e-30);
  CHECK(defaults.eps2 == 1e-3);
  CHECK(defaults.clip_threshold == 1);
  CHECK(defaults.decay_rate == -0.8);
  const auto fixed = optimizer("adafactor", R"("lr": 1e-3, "relative_step": false, "beta1": 0.9, "eps": [1e-8, 0.1])");
  CHECK(fixed.lr == 1e-3);
  CHECK(find_params<AdafactorParams>(fixed.algorithm)->momentum);
  CHECK(find_params<AdafactorParams>(fixed.algorithm)->beta1 == 0.9);
  CHECK(find_params<AdafactorParams>(fixed.algorithm)->eps2 == 0.1);
}

TEST_CASE("a rate of Muon's that is left out is lr, and lr that is left out is muon_lr") {
  struct Case {
    const char* given;
    double lr, muon, adam;
  };
  for (const Case& c : {Case{R"("lr": 0.03)", 0.03, 0.03, 0.03}, Case{R"("muon_lr": 0.02)", 0.02, 0.02, 0.02},
                        Case{R"("lr": 0.03, "muon_lr": 0.02)", 0.03, 0.02, 0.03},
                        Case{R"("lr": 0.03, "adam_lr": 0.001)", 0.03, 0.03, 0.001},
                        Case{R"("muon_lr": 0.02, "adam_lr": 0.001)", 0.02, 0.02, 0.001},
                        Case{R"("lr": 0.03, "muon_lr": 0.02, "adam_lr": 0.001)", 0.03, 0.02, 0.001}}) {
    INFO(c.given);
    const auto optimizer =
        parsed(R"("optimizer": {"type": "Muon", "params": {)" + std::string(c.given) + "}},").optimizer;
    CHECK(optimizer.lr == c.lr);
    const auto rest = optimizer.algorithm->facts(0), matrices = optimizer.algorithm->facts(1);
    CHECK(rest.optimizer == std::string("AdamW"));
    CHECK(matrices.optimizer == std::string("Muon"));
    CHECK(optimizer.lr * rest.lr_scale == Approx(c.adam));
    CHECK(optimizer.lr * matrices.lr_scale == Approx(c.muon));
  }
}

TEST_CASE("one cycle and the range test carry DeepSpeed's parameters") {
  const auto config = [](const std::string& optimizer, const std::string& type, const std::string& params) {
    return parsed(R"("optimizer": {"type": ")" + optimizer + R"("}, "scheduler": {"type": ")" + type +
                  R"(", "params": {)" + params + "}},");
  };
  const std::string rates = R"("cycle_min_lr": [0.1], "cycle_max_lr": 0.2)";
  const auto cycle = config("Adam", "OneCycle", rates + R"(, "cycle_first_step_size": 7)").schedule;
  CHECK(cycle.type == ScheduleType::one_cycle);
  CHECK(cycle.one_cycle.min_lr == 0.1);
  CHECK(cycle.one_cycle.max_lr == 0.2);
  CHECK(cycle.one_cycle.second_step_size == 7);
  CHECK(cycle.one_cycle.first_stair_count == 0);
  CHECK(cycle.one_cycle.second_stair_count == 0);
  const auto stairs = config("Adam", "OneCycle", rates + R"(, "cycle_first_stair_count": 4)");
  CHECK(stairs.schedule.one_cycle.first_stair_count == 4);
  CHECK(stairs.schedule.one_cycle.second_stair_count == 4);
  CHECK(stairs.warnings.empty());
  const std::string both = rates + R"(, "cycle_first_stair_count": 4, "cycle_second_stair_count": 0)";
  CHECK(config("Adam", "OneCycle", both).schedule.one_cycle.second_stair_count == 0);
  CHECK(cycle.one_cycle.momentum);
  CHECK(cycle.one_cycle.max_mom == 0.9);
  const Config sgd = config("SGD", "OneCycle", rates);
  CHECK(!sgd.schedule.one_cycle.momentum);
  CHECK(warned(sgd, "cycle_momentum"));
  const auto range = config("Adam", "LRRangeTest", R"("lr_range_test_min_lr": 0.5, "lr_range_test_staircase": true)");
  CHECK(range.schedule.type == ScheduleType::lr_range_test);
  CHECK(range.schedule.range_test.min_lr == 0.5);
  CHECK(range.schedule.range_test.step_size == 2000);
  CHECK(range.schedule.range_test.staircase);
}

}  // namespace zrt::config_optimizers_test

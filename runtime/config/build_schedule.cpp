#include <limits>

#include "core/error.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

using optimizer::ScheduleType;
using optimizer::WarmupType;

const std::string schedule_params = "scheduler.params.";

// DeepSpeed takes a list of rates, one per parameter group; there is one group here.
double rate(Values& values, const std::string& path) {
  if (values.at(path).value.is_array()) refuse(values.at(path), "must be one number: there is one parameter group.");
  return values.real(path);
}

// A rate of OneCycle, which has no default.
double cycle_rate(Values& values, const char* key) {
  const std::string path = schedule_params + key;
  if (values.find(path) == nullptr) values.missing(path, "OneCycle needs it. Legal: a learning rate.");
  return rate(values, path);
}

// "auto" and null stand for `fallback`.
void infer_open(Values& values, const std::string& path, double fallback) {
  const nlohmann::json& value = values.at(path).value;
  if (value.is_null() || value == "auto") values.infer(path, fallback);
}

int64_t total_steps(Values& values, int64_t steps) {
  const std::string path = schedule_params + "total_num_steps";
  if (values.at(path).value == "auto") values.infer(path, steps);
  return values.integer(path);
}

void build_warmup(Values& values, const std::string& type, int64_t steps, LearningRate& schedule) {
  schedule.warmup_num_steps = values.integer(schedule_params + "warmup_num_steps");
  values.check([&] {
    schedule.warmup_type =
        values.choice(schedule_params + "warmup_type") == "log" ? WarmupType::log : WarmupType::linear;
  });
  if (type == "WarmupCosineLR") {
    schedule.type = ScheduleType::warmup_cosine;
    schedule.warmup_min_ratio = values.real(schedule_params + "warmup_min_ratio");
    schedule.cos_min_ratio = values.real(schedule_params + "cos_min_ratio");
  } else {
    schedule.type = type == "WarmupLR" ? ScheduleType::warmup : ScheduleType::warmup_decay;
    infer_open(values, schedule_params + "warmup_max_lr", schedule.lr);
    values.check([&] { schedule.warmup_min_lr = rate(values, schedule_params + "warmup_min_lr"); });
    values.check([&] { schedule.warmup_max_lr = rate(values, schedule_params + "warmup_max_lr"); });
  }
  if (schedule.type == ScheduleType::warmup) return;
  schedule.total_num_steps = total_steps(values, steps);
  if (schedule.total_num_steps < schedule.warmup_num_steps) {
    values.warnings.push_back(schedule_params + "total_num_steps = " + std::to_string(schedule.total_num_steps) +
                              " is less than " + schedule_params +
                              "warmup_num_steps = " + std::to_string(schedule.warmup_num_steps) +
                              ": the rate is at its lowest from the end of the warm-up on.");
  }
}

// Momentum is cycled where the optimizer has betas; elsewhere DeepSpeed only warns, and so does this.
void build_cycle_momentum(Values& values, const OptimizerConfig& optimizer, int64_t steps, LearningRate& schedule) {
  optimizer::OneCycle& cycle = schedule.one_cycle;
  cycle.momentum = values.flag(schedule_params + "cycle_momentum");
  if (cycle.momentum && !optimizer.algorithm->has_betas()) {
    cycle.momentum = false;
    values.warnings.push_back(schedule_params +
                              "cycle_momentum = true has no effect, as in DeepSpeed: optimizer.type = " +
                              values.text("optimizer.type") + " has no betas.");
  }
  if (!cycle.momentum) return;
  cycle.min_mom = values.real(schedule_params + "cycle_min_mom");
  cycle.max_mom = values.real(schedule_params + "cycle_max_mom");
  cycle.decay_mom_rate = values.real(schedule_params + "decay_mom_rate");
  // The momentum only grows in the decay.
  const double last = schedule.rates(steps).beta1;
  if (last >= 1) {
    refuse(values.at(schedule_params + "decay_mom_rate"), "would raise the momentum to " + printed(last) + " at step " +
                                                              std::to_string(steps) + "; it must stay below 1. Try 0.");
  }
}

void build_one_cycle(Values& values, const OptimizerConfig& optimizer, int64_t steps, LearningRate& schedule) {
  schedule.type = ScheduleType::one_cycle;
  optimizer::OneCycle& cycle = schedule.one_cycle;
  values.check([&] { cycle.min_lr = cycle_rate(values, "cycle_min_lr"); });
  values.check([&] { cycle.max_lr = cycle_rate(values, "cycle_max_lr"); });
  cycle.decay_lr_rate = values.real(schedule_params + "decay_lr_rate");
  cycle.first_step_size = values.integer(schedule_params + "cycle_first_step_size");
  const std::string second = schedule_params + "cycle_second_step_size";
  if (values.is_null(second)) values.infer(second, cycle.first_step_size);
  cycle.second_step_size = values.integer(second);
  cycle.first_stair_count = values.integer(schedule_params + "cycle_first_stair_count");
  const std::string stairs = schedule_params + "cycle_second_stair_count";
  if (values.is_null(stairs)) values.infer(stairs, cycle.first_stair_count);
  cycle.second_stair_count = values.integer(stairs);
  cycle.decay_step_size = values.integer(schedule_params + "decay_step_size");
  build_cycle_momentum(values, optimizer, steps, schedule);
}

void build_range_test(Values& values, LearningRate& schedule) {
  schedule.type = ScheduleType::lr_range_test;
  schedule.range_test.min_lr = rate(values, schedule_params + "lr_range_test_min_lr");
  schedule.range_test.step_size = values.integer(schedule_params + "lr_range_test_step_size");
  schedule.range_test.step_rate = values.real(schedule_params + "lr_range_test_step_rate");
  schedule.range_test.staircase = values.flag(schedule_params + "lr_range_test_staircase");
}

}  // namespace

LearningRate build_schedule(Values& values, const OptimizerConfig& optimizer, int64_t steps) {
  LearningRate schedule;
  schedule.lr = schedule.warmup_max_lr = optimizer.lr;
  if (values.is_null("scheduler.type") || values.wrong("scheduler.type")) return schedule;
  if (const char* setting = optimizer.algorithm->rate_setting()) {
    refuse(values.at("scheduler.type"), std::string("contradicts ") + setting + ", by which " +
                                            values.text("optimizer.type") +
                                            " sets its own rate. Remove the scheduler, or that setting and give "
                                            "optimizer.params.lr.");
  }
  const std::string type = values.text("scheduler.type");
  if (build_named_schedule(values, steps, schedule)) return schedule;
  if (type == "OneCycle") {
    build_one_cycle(values, optimizer, steps, schedule);
  } else if (type == "LRRangeTest") {
    build_range_test(values, schedule);
  } else {
    build_warmup(values, type, steps, schedule);
  }
  return schedule;
}

}  // namespace zrt::runtime::configuration

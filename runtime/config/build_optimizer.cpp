#include <limits>

#include "core/error.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

using optimizer::ScheduleType;
using optimizer::WarmupType;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest_rate = 1e6;  // any larger rate is a mistake

// DeepSpeed takes a list of rates, one per parameter group; there is one group here.
double rate(Values& values, const std::string& path) {
  const nlohmann::json& value = values.at(path).value;
  if (value.is_array()) {
    if (value.size() != 1 || !value[0].is_number()) {
      refuse(values.at(path), "must be one number: there is one parameter group.");
    }
    values.infer(path, value[0]);
  }
  return values.real(path, 0, largest_rate);
}

// "auto" and null stand for `fallback`.
void infer_open(Values& values, const std::string& path, double fallback) {
  const nlohmann::json& value = values.at(path).value;
  if (value.is_null() || value == "auto") values.infer(path, fallback);
}

int64_t total_steps(Values& values, const std::string& type, int64_t steps) {
  const std::string path = "scheduler.params.total_num_steps";
  const Value* value = values.find(path);
  if (value == nullptr) {
    throw core::ConfigError(path + " is missing; " + type + " needs it. Legal: at least 1; usually run.steps, here " +
                            std::to_string(steps) + ", which \"auto\" stands for.");
  }
  if (value->value == "auto") values.infer(path, steps);
  return values.integer(path, 1, int64_t{1} << 40);
}

}  // namespace

OptimizerConfig build_optimizer(Values& values) {
  // DeepSpeed leaves a missing optimizer to its caller's code; here it is AdamW with DeepSpeed's defaults.
  if (values.is_null("optimizer.type")) values.infer("optimizer.type", "AdamW");
  const std::string params = "optimizer.params.";
  OptimizerConfig optimizer;
  optimizer.lr = values.real(params + "lr", 0, largest_rate);
  const Value& betas = values.at(params + "betas");
  const auto good = [](const nlohmann::json& beta) { return beta.is_number() && beta >= 0 && beta < 1; };
  if (betas.value.size() != 2 || !good(betas.value[0]) || !good(betas.value[1])) {
    refuse(betas, "must be two numbers, each at least 0 and below 1; the default is [0.9, 0.999].");
  }
  optimizer.beta1 = betas.value[0].get<double>();
  optimizer.beta2 = betas.value[1].get<double>();
  optimizer.eps = values.real(params + "eps", 0, 1);
  optimizer.weight_decay = values.real(params + "weight_decay", 0, infinity);
  optimizer.bias_correction = values.flag(params + "bias_correction");

  // AdamW is always decoupled, and so is Adam unless adam_w_mode is false.
  const std::string type = values.text("optimizer.type");
  const bool adam = type.size() == 4;
  optimizer.decoupled = !adam || values.flag(params + "adam_w_mode");
  if (!adam && !values.flag(params + "adam_w_mode")) {
    values.warnings.push_back(params + "adam_w_mode = false (" + values.at(params + "adam_w_mode").place +
                              ") has no effect with optimizer.type = " + type + "; Adam reads it.");
  }
  return optimizer;
}

LearningRate build_schedule(Values& values, double lr, int64_t steps) {
  LearningRate schedule;
  schedule.lr = schedule.warmup_max_lr = lr;
  if (values.is_null("scheduler.type")) return schedule;
  const std::string type = values.text("scheduler.type"), params = "scheduler.params.";
  schedule.warmup_num_steps = values.integer(params + "warmup_num_steps", 1, int64_t{1} << 40);
  const Value& shape = values.at(params + "warmup_type");
  if (shape.value != "log" && shape.value != "linear") {
    refuse(shape, "is no warm-up; legal: \"log\" and \"linear\".");
  }
  schedule.warmup_type = shape.value == "log" ? WarmupType::log : WarmupType::linear;
  if (type == "WarmupCosineLR") {
    schedule.type = ScheduleType::warmup_cosine;
    schedule.warmup_min_ratio = values.real(params + "warmup_min_ratio", 0, 1);
    schedule.cos_min_ratio = values.real(params + "cos_min_ratio", 0, 1);
  } else {
    schedule.type = type == "WarmupLR" ? ScheduleType::warmup : ScheduleType::warmup_decay;
    infer_open(values, params + "warmup_max_lr", lr);
    schedule.warmup_min_lr = rate(values, params + "warmup_min_lr");
    schedule.warmup_max_lr = rate(values, params + "warmup_max_lr");
  }
  if (schedule.type != ScheduleType::warmup) {
    schedule.total_num_steps = total_steps(values, type, steps);
    if (schedule.total_num_steps < schedule.warmup_num_steps) {
      values.warnings.push_back(
          params + "total_num_steps = " + std::to_string(schedule.total_num_steps) + " is less than " + params +
          "warmup_num_steps = " + std::to_string(schedule.warmup_num_steps) + ": the warm-up never ends.");
    }
  }
  return schedule;
}

}  // namespace zrt::runtime::configuration

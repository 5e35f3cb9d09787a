// Schedules by the names of transformers.
#include <string>

#include "core/error.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

using optimizer::Bend;
using optimizer::NamedSchedule;
using optimizer::NamedShape;

const std::string named_params = "scheduler.params.";

struct NamedType {
  const char* name;
  NamedShape shape;
};
constexpr NamedType named_types[] = {
    {"constant_with_warmup", NamedShape::constant_with_warmup},
    {"linear", NamedShape::linear},
    {"cosine", NamedShape::cosine},
    {"cosine_with_restarts", NamedShape::cosine_with_restarts},
    {"polynomial", NamedShape::polynomial},
    {"inverse_sqrt", NamedShape::inverse_sqrt},
    {"cosine_with_min_lr", NamedShape::cosine},
    {"warmup_stable_decay", NamedShape::warmup_stable_decay},
};

double floor_of_cosine(const Values& values, double lr) {
  const std::string rate = named_params + "min_lr", share = named_params + "min_lr_rate";
  if (values.is_null(rate) == values.is_null(share)) {
    refuse(values.at(rate), "and min_lr_rate are both " + std::string(values.is_null(rate) ? "left out" : "given") +
                                "; cosine_with_min_lr needs one of them: the lowest rate, or its share of "
                                "optimizer.params.lr.");
  }
  if (values.is_null(rate)) return values.real(share);
  const double lowest = values.real(rate);
  if (lowest > lr) {
    refuse(values.at(rate), "is above optimizer.params.lr = " + printed(lr) + ", from which the rate would rise.");
  }
  return lr > 0 ? lowest / lr : 0;
}

double floor_of_polynomial(const Values& values, double lr) {
  const double end = values.real(named_params + "lr_end");
  if (end >= lr) refuse(values.at(named_params + "lr_end"), "must be below optimizer.params.lr = " + printed(lr) + ".");
  return end / lr;
}

Bend bend(const Values& values, const char* key) {
  const std::string name = values.choice(named_params + key);
  return name == "linear" ? Bend::linear : name == "cosine" ? Bend::cosine : Bend::root;
}

void build_stable_decay(Values& values, NamedSchedule& named) {
  const std::string decay = named_params + "num_decay_steps", stable = named_params + "num_stable_steps";
  if (values.find(decay) == nullptr) {
    values.missing(decay, "warmup_stable_decay needs it. Legal: a number of steps, often a tenth of the run's.");
  }
  named.decay = values.integer(decay);
  const int64_t left = named.total - named.warmup - named.decay;
  if (values.is_null(stable) && left < 0) {
    refuse(values.at(decay), "and num_warmup_steps = " + std::to_string(named.warmup) +
                                 " are more than num_training_steps = " + std::to_string(named.total) + ".");
  }
  if (values.is_null(stable)) values.infer(stable, left);
  named.stable = values.integer(stable);
  const Value& total = values.at(named_params + "num_training_steps");
  if (total.from != From::inferred && named.stable != left) {
    refuse(values.at(stable), "contradicts " + shown(total) + ", which leaves " + std::to_string(left) +
                                  " steps behind num_warmup_steps = " + std::to_string(named.warmup) +
                                  " and num_decay_steps = " + std::to_string(named.decay) +
                                  ". Leave one of the two out.");
  }
  named.warmup_bend = bend(values, "warmup_type"), named.decay_bend = bend(values, "decay_type");
  named.floor = values.real(named_params + "min_lr_ratio");
}

}  // namespace

bool build_named_schedule(Values& values, int64_t steps, LearningRate& schedule) {
  const std::string type = values.text("scheduler.type");
  if (type == "constant") return true;
  const NamedType* found = nullptr;
  for (const NamedType& one : named_types) found = type == one.name ? &one : found;
  if (found == nullptr) return false;
  schedule.type = optimizer::ScheduleType::named;
  NamedSchedule& named = schedule.named;
  named.shape = found->shape;
  named.warmup = values.integer(named_params + "num_warmup_steps");
  const std::string total = named_params + "num_training_steps", scale = named_params + "timescale";
  if (const Value* value = values.find(total)) {
    if (value->value == "auto") values.infer(total, steps);
    named.total = values.integer(total);
    if (named.total < named.warmup) {
      values.warnings.push_back(total + " = " + std::to_string(named.total) + " is less than " + named_params +
                                "num_warmup_steps = " + std::to_string(named.warmup) +
                                ": the rate is at its lowest from the end of the warm-up on.");
    }
  }
  if (named.shape == NamedShape::cosine_with_restarts) {
    named.cycles = static_cast<double>(values.integer(named_params + "num_cycles"));
  } else if (values.find(named_params + "num_cycles") != nullptr) {
    named.cycles = values.real(named_params + "num_cycles");
  }
  if (type == "cosine_with_min_lr") values.check([&] { named.floor = floor_of_cosine(values, schedule.lr); });
  if (named.shape == NamedShape::polynomial) {
    named.power = values.real(named_params + "power");
    values.check([&] { named.floor = floor_of_polynomial(values, schedule.lr); });
  }
  if (named.shape == NamedShape::inverse_sqrt) {
    if (values.is_null(scale)) values.infer(scale, named.warmup > 0 ? named.warmup : 10000);
    named.timescale = values.integer(scale);
  }
  if (named.shape == NamedShape::warmup_stable_decay) values.check([&] { build_stable_decay(values, named); });
  return true;
}

}  // namespace zrt::runtime::configuration

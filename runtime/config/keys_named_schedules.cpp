// Learning-rate schedules by the names of transformers, with the names of its arguments.
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {

std::span<const Section> named_schedule_sections();

namespace {

constexpr Legal steps = between(0, most);

constexpr Key warmup_steps = key("num_warmup_steps", t_int, "0", steps, Effect::results,
                                 "Steps in which the rate rises from 0 to optimizer.params.lr.");
constexpr Key training_steps = key("num_training_steps", t_int | t_auto, R"("auto")", steps, Effect::results,
                                   "The step at which the schedule ends; auto: run.steps.");
constexpr Key cycles = key("num_cycles", t_real, "0.5", at_least(0), Effect::results,
                           "Waves of the cosine behind the warm-up; 0.5: it falls once.");

constexpr Key constant_with_warmup_keys[] = {warmup_steps};
constexpr Key linear_keys[] = {warmup_steps, training_steps};
constexpr Key cosine_keys[] = {warmup_steps, training_steps, cycles};
constexpr Key cosine_with_restarts_keys[] = {warmup_steps, training_steps,
                                             key("num_cycles", t_int, "1", between(0, most), Effect::results,
                                                 "Times that the cosine falls, each from the top.")};
constexpr Key polynomial_keys[] = {
    warmup_steps, training_steps,
    key("lr_end", t_real, "1e-7", at_least(0), Effect::results,
        "The rate at the end; it must be below optimizer.params.lr."),
    key("power", t_real, "1.0", at_least(0), Effect::results, "The exponent of what is left of the decay.")};
constexpr Key inverse_sqrt_keys[] = {warmup_steps,
                                     key("timescale", t_int | t_null, "null", between(1, most), Effect::results,
                                         "The rate s steps behind the warm-up is optimizer.params.lr / sqrt(1 + s / "
                                         "timescale); null: num_warmup_steps, or 10000 without a warm-up.")};
constexpr Key cosine_with_min_lr_keys[] = {
    warmup_steps, training_steps, cycles,
    key("min_lr", t_real | t_null, "null", at_least(0), Effect::results,
        "The rate at which the schedule ends; null: min_lr_rate says it."),
    key("min_lr_rate", t_real | t_null, "null", between(0, 1), Effect::results,
        "The share of optimizer.params.lr at which the schedule ends; null: min_lr says it.")};
constexpr Key warmup_stable_decay_keys[] = {
    key("num_warmup_steps", t_int, "0", steps, Effect::results,
        "Steps in which the rate rises from min_lr_ratio of optimizer.params.lr to all of it."),
    training_steps,
    key("num_decay_steps", t_int, nullptr, steps, Effect::results, "Steps in which the rate falls, the last ones."),
    key("num_stable_steps", t_int | t_null, "null", steps, Effect::results,
        "Steps of a constant rate between them; null: what num_training_steps leaves."),
    key("warmup_type", t_text, R"("linear")", one_of("linear cosine 1-sqrt"), Effect::results,
        "The curve along which the rate rises."),
    key("decay_type", t_text, R"("cosine")", one_of("linear cosine 1-sqrt"), Effect::results,
        "The curve along which the rate falls."),
    key("min_lr_ratio", t_real, "0.0", between(0, 1), Effect::results,
        "The share of optimizer.params.lr at which the schedule begins and ends."),
    key("num_cycles", t_real, "0.5", at_least(0), Effect::results,
        "Waves of a decay along a cosine; 0.5: it falls once.")};

constexpr Section table[] = {
    {"scheduler.params", "constant", Parser::legacy, nullptr, {}},
    {"scheduler.params", "constant_with_warmup", Parser::legacy, nullptr, constant_with_warmup_keys},
    {"scheduler.params", "linear", Parser::legacy, nullptr, linear_keys},
    {"scheduler.params", "cosine", Parser::legacy, nullptr, cosine_keys},
    {"scheduler.params", "cosine_with_restarts", Parser::legacy, nullptr, cosine_with_restarts_keys},
    {"scheduler.params", "polynomial", Parser::legacy, nullptr, polynomial_keys},
    {"scheduler.params", "inverse_sqrt", Parser::legacy, nullptr, inverse_sqrt_keys},
    {"scheduler.params", "cosine_with_min_lr", Parser::legacy, nullptr, cosine_with_min_lr_keys},
    {"scheduler.params", "warmup_stable_decay", Parser::legacy, nullptr, warmup_stable_decay_keys},
};

}  // namespace

std::span<const Section> named_schedule_sections() {
  return table;
}

}  // namespace zrt::runtime::configuration

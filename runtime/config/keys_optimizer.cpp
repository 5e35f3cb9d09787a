// Optimizers, whose parameters stand in their specs, those that zrt does not have, and learning-rate schedules.
#include <algorithm>
#include <iterator>

#include "core/keys/text.h"
#include "optimizer/spec.h"
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Legal rates = between(0, optimizer::largest_rate);

constexpr Key optimizer_keys[] = {
    key("type", t_text | t_null | t_any_case, "null", Effect::results,
        "The rule, in any case; null: AdamW, with a warning."),
    key("params", t_object | t_null, "null", "The rule's own numbers, which depend on optimizer.type."),
    {"legacy_fusion", t_bool, "false", Handling::inert, "a switch of the fp16 wrapper"},
};

constexpr Key optimizer_params_lamb_keys[] = {
    {"max_coeff", t_real, "10.0", Handling::refused, "LAMB is not supported"},
    {"min_coeff", t_real, "0.01", Handling::refused, "LAMB is not supported"},
    {"eps_inside_sqrt", t_bool, "false", Handling::refused, "LAMB is not supported"},
};

constexpr Key optimizer_params_onebitadam_keys[] = {
    {"freeze_step", t_int, "100000", Handling::refused, "1-bit Adam is not supported"},
    {"cuda_aware", t_bool, "false", Handling::refused, "1-bit Adam is not supported"},
    {"comm_backend_name", t_text, R"("nccl")", Handling::refused, "1-bit Adam is not supported"},
};

constexpr Key optimizer_params_zerooneadam_keys[] = {
    {"var_freeze_step", t_int, "100000", Handling::refused, "0/1 Adam is not supported"},
    {"var_update_scaler", t_int, "16", Handling::refused, "0/1 Adam is not supported"},
    {"local_step_scaler", t_int, "32678", Handling::refused, "0/1 Adam is not supported"},
    {"local_step_clipper", t_int, "16", Handling::refused, "0/1 Adam is not supported"},
    {"cuda_aware", t_bool, "false", Handling::refused, "0/1 Adam is not supported"},
    {"comm_backend_name", t_text, R"("nccl")", Handling::refused, "0/1 Adam is not supported"},
};

constexpr Key optimizer_params_onebitlamb_keys[] = {
    {"max_coeff", t_real, "10.0", Handling::refused, "1-bit LAMB is not supported"},
    {"min_coeff", t_real, "0.01", Handling::refused, "1-bit LAMB is not supported"},
    {"coeff_beta", t_real, "0.9", Handling::refused, "1-bit LAMB is not supported"},
    {"factor_max", t_real, "4.0", Handling::refused, "1-bit LAMB is not supported"},
    {"factor_min", t_real, "0.5", Handling::refused, "1-bit LAMB is not supported"},
    {"factor_threshold", t_real, "0.1", Handling::refused, "1-bit LAMB is not supported"},
    {"freeze_step", t_int, "100000", Handling::refused, "1-bit LAMB is not supported"},
    {"cuda_aware", t_bool, "false", Handling::refused, "1-bit LAMB is not supported"},
    {"comm_backend_name", t_text, R"("nccl")", Handling::refused, "1-bit LAMB is not supported"},
};

constexpr Key optimizer_params_adagrad_keys[] = {
    {"lr", t_real, "0.01", Handling::refused, "Adagrad is not supported"},
    {"eps", t_real, "1e-10", Handling::refused, "Adagrad is not supported"},
    {"weight_decay", t_real, "0.0", Handling::refused, "Adagrad is not supported"},
};

constexpr const char* schedules =
    "WarmupLR WarmupDecayLR WarmupCosineLR OneCycle LRRangeTest constant constant_with_warmup linear cosine "
    "cosine_with_restarts polynomial inverse_sqrt cosine_with_min_lr warmup_stable_decay";

constexpr Key scheduler_keys[] = {
    key("type", t_text | t_null, "null", one_of(schedules), Effect::results,
        "The shape of the schedule, by DeepSpeed's names or transformers'; null: optimizer.params.lr at every step."),
    key("params", t_object | t_null, "null", "The shape's numbers, which depend on scheduler.type."),
};

constexpr const char* from_the_start =
    "a run starts its schedule with its first step; run.resume goes on where a checkpoint was";

constexpr Key scheduler_params_warmuplr_keys[] = {
    key("warmup_min_lr", t_real | t_list, "0.0", rates, Effect::results, "The rate at which the warm-up begins."),
    key("warmup_max_lr", t_real | t_list | t_null | t_auto, "null", rates, Effect::results,
        "The rate at which the warm-up ends; null or auto: optimizer.params.lr."),
    key("warmup_num_steps", t_int, "1000", between(0, most), Effect::results,
        "Steps of the warm-up; 0 and 1 count as 2, as in DeepSpeed."),
    key("warmup_type", t_text, R"("log")", one_of("log linear"), Effect::results,
        "Whether the rate grows with the logarithm of the step or with the step."),
    {"last_batch_iteration", t_int, "-1", Handling::refused, from_the_start},
};

constexpr Key scheduler_params_warmupdecaylr_keys[] = {
    key("total_num_steps", t_int | t_auto, R"("auto")", between(0, most), Effect::results,
        "The step at which the schedule ends; auto: run.steps."),
    key("warmup_min_lr", t_real | t_list, "0.0", rates, Effect::results, "The rate at which the warm-up begins."),
    key("warmup_max_lr", t_real | t_list | t_auto, "0.001", rates, Effect::results,
        "The rate at which the warm-up ends; auto: optimizer.params.lr."),
    key("warmup_num_steps", t_int, "1000", between(0, most), Effect::results,
        "Steps of the warm-up; 0 and 1 count as 2, as in DeepSpeed."),
    key("warmup_type", t_text, R"("log")", one_of("log linear"), Effect::results,
        "Whether the rate grows with the logarithm of the step or with the step."),
    {"last_batch_iteration", t_int, "-1", Handling::refused, from_the_start},
};

constexpr Key scheduler_params_warmupcosinelr_keys[] = {
    key("total_num_steps", t_int | t_auto, R"("auto")", between(0, most), Effect::results,
        "The step at which the schedule ends; auto: run.steps."),
    key("warmup_min_ratio", t_real, "0.0", between(0, 1), Effect::results,
        "The share of optimizer.params.lr at which the warm-up begins."),
    key("warmup_num_steps", t_int, "1000", between(0, most), Effect::results,
        "Steps of the warm-up; 0 and 1 count as 2, as in DeepSpeed."),
    key("cos_min_ratio", t_real, "0.0001", between(0, 1), Effect::results,
        "The share of optimizer.params.lr at which the schedule ends."),
    key("warmup_type", t_text, R"("log")", one_of("log linear"), Effect::results,
        "Whether the rate grows with the logarithm of the step or with the step."),
    {"last_batch_iteration", t_int, "-1", Handling::refused, from_the_start},
};

constexpr Key scheduler_params_onecycle_keys[] = {
    key("cycle_min_lr", t_real | t_list, nullptr, rates, Effect::results, "The rate at both ends of the cycle."),
    key("cycle_max_lr", t_real | t_list, nullptr, rates, Effect::results, "The rate in the middle of the cycle."),
    key("decay_lr_rate", t_real, "0.0", at_least(0), Effect::results, "How fast the rate decays after the cycle."),
    key("cycle_first_step_size", t_int, "2000", between(1, most), Effect::results, "Steps in which the rate rises."),
    key("cycle_second_step_size", t_int | t_null, "null", between(0, most), Effect::results,
        "Steps in which the rate falls again; null: as many as it rises."),
    key("cycle_first_stair_count", t_int, "0", between(0, most), Effect::results,
        "Stairs of equal height in which the rate rises; 0: it rises with every step."),
    key("cycle_second_stair_count", t_int | t_null, "null", between(0, most), Effect::results,
        "Stairs in which the rate falls again; 0: with every step; null: as many as it rises."),
    key("decay_step_size", t_int, "0", between(0, most), Effect::results,
        "Steps from one decay after the cycle to the next; 0: there is none."),
    key("cycle_momentum", t_bool, "true", Effect::results,
        "Whether the first beta falls while the rate rises, and the other way round."),
    key("cycle_min_mom", t_real, "0.8", half_open(0, 1), Effect::results, "The first beta in the middle of the cycle."),
    key("cycle_max_mom", t_real, "0.9", half_open(0, 1), Effect::results, "The first beta at both ends of the cycle."),
    key("decay_mom_rate", t_real, "0.0", at_least(0), Effect::results,
        "How fast the first beta grows after the cycle."),
    {"last_batch_iteration", t_int, "-1", Handling::refused, from_the_start},
};

constexpr Key scheduler_params_lrrangetest_keys[] = {
    key("lr_range_test_min_lr", t_real | t_list, "0.001", rates, Effect::results, "The rate of the first step."),
    key("lr_range_test_step_size", t_int, "2000", between(1, most), Effect::results,
        "Steps in which the rate grows by lr_range_test_step_rate times the first one."),
    key("lr_range_test_step_rate", t_real, "1.0", at_least(0), Effect::results, "How fast the rate grows."),
    key("lr_range_test_staircase", t_bool, "false", Effect::results,
        "Whether the rate grows in stairs of lr_range_test_step_size steps."),
    {"last_batch_iteration", t_int, "-1", Handling::refused, from_the_start},
};

// Those of DeepSpeed that zrt does not have. One for whose type there is a spec is left out.
constexpr Section refused_table[] = {
    {"optimizer.params", "lamb", Parser::legacy, nullptr, optimizer_params_lamb_keys},
    {"optimizer.params", "onebitadam", Parser::legacy, nullptr, optimizer_params_onebitadam_keys},
    {"optimizer.params", "zerooneadam", Parser::legacy, nullptr, optimizer_params_zerooneadam_keys},
    {"optimizer.params", "onebitlamb", Parser::legacy, nullptr, optimizer_params_onebitlamb_keys},
    {"optimizer.params", "adagrad", Parser::legacy, nullptr, optimizer_params_adagrad_keys},
};

constexpr Section scheduler_table[] = {
    {"scheduler", "", Parser::legacy, nullptr, scheduler_keys},
    {"scheduler.params", "WarmupLR", Parser::legacy, nullptr, scheduler_params_warmuplr_keys},
    {"scheduler.params", "WarmupDecayLR", Parser::legacy, nullptr, scheduler_params_warmupdecaylr_keys},
    {"scheduler.params", "WarmupCosineLR", Parser::legacy, nullptr, scheduler_params_warmupcosinelr_keys},
    {"scheduler.params", "OneCycle", Parser::legacy, nullptr, scheduler_params_onecycle_keys},
    {"scheduler.params", "LRRangeTest", Parser::legacy, nullptr, scheduler_params_lrrangetest_keys},
};

}  // namespace

std::span<const Section> optimizer_sections() {
  static const std::vector<Section> table = [] {
    static const std::string types = join(optimizer::optimizer_type_names(), " ");
    static std::vector<Key> keys(std::begin(optimizer_keys), std::end(optimizer_keys));
    keys[0].legal.choices = types.c_str();
    std::vector<Section> all{{"optimizer", "", Parser::legacy, nullptr, keys}};
    for (const optimizer::OptimizerSpec* spec : optimizer::optimizer_specs()) {
      all.push_back({"optimizer.params", spec->variant, Parser::legacy, nullptr, spec->keys});
    }
    std::copy_if(std::begin(refused_table), std::end(refused_table), std::back_inserter(all),
                 [](const Section& refused) { return optimizer::find_optimizer_spec(refused.variant) == nullptr; });
    all.insert(all.end(), std::begin(scheduler_table), std::end(scheduler_table));
    return all;
  }();
  return table;
}

}  // namespace zrt::runtime::configuration

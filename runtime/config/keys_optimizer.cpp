// Optimizers, whose parameters stand in their specs, those that zrt does not have, and learning-rate schedules.
#include "optimizer/spec.h"
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key optimizer_keys[] = {
    {"type", t_text | t_null, "null", Handling::implemented},
    {"params", t_object | t_null, "null", Handling::implemented},
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

constexpr Key optimizer_params_adagrad_cpu_keys[] = {
    {"lr", t_real, "0.01", Handling::refused, "Adagrad is not supported"},
    {"eps", t_real, "1e-10", Handling::refused, "Adagrad is not supported"},
    {"weight_decay", t_real, "0.0", Handling::refused, "Adagrad is not supported"},
};

constexpr Key scheduler_keys[] = {
    {"type", t_text | t_null, "null", Handling::implemented},
    {"params", t_object | t_null, "null", Handling::implemented},
};

constexpr const char* from_the_start =
    "a run starts its schedule with its first step; run.resume goes on where a checkpoint was";

constexpr Key scheduler_params_warmuplr_keys[] = {
    {"warmup_min_lr", t_real | t_list, "0.0", Handling::implemented},
    {"warmup_max_lr", t_real | t_list | t_null | t_auto, "null", Handling::implemented},
    {"warmup_num_steps", t_int, "1000", Handling::implemented},
    {"warmup_type", t_text, R"("log")", Handling::implemented},
    {"last_batch_iteration", t_int, "-1", Handling::refused, from_the_start},
};

constexpr Key scheduler_params_warmupdecaylr_keys[] = {
    {"total_num_steps", t_int | t_auto, nullptr, Handling::implemented},
    {"warmup_min_lr", t_real | t_list, "0.0", Handling::implemented},
    {"warmup_max_lr", t_real | t_list | t_auto, "0.001", Handling::implemented},
    {"warmup_num_steps", t_int, "1000", Handling::implemented},
    {"warmup_type", t_text, R"("log")", Handling::implemented},
    {"last_batch_iteration", t_int, "-1", Handling::refused, from_the_start},
};

constexpr Key scheduler_params_warmupcosinelr_keys[] = {
    {"total_num_steps", t_int | t_auto, nullptr, Handling::implemented},
    {"warmup_min_ratio", t_real, "0.0", Handling::implemented},
    {"warmup_num_steps", t_int, "1000", Handling::implemented},
    {"cos_min_ratio", t_real, "0.0001", Handling::implemented},
    {"warmup_type", t_text, R"("log")", Handling::implemented},
    {"last_batch_iteration", t_int, "-1", Handling::refused, from_the_start},
};

constexpr Key scheduler_params_onecycle_keys[] = {
    {"cycle_min_lr", t_real | t_list, nullptr, Handling::implemented},
    {"cycle_max_lr", t_real | t_list, nullptr, Handling::implemented},
    {"decay_lr_rate", t_real, "0.0", Handling::implemented},
    {"cycle_first_step_size", t_int, "2000", Handling::implemented},
    {"cycle_second_step_size", t_int | t_null, "null", Handling::implemented},
    {"cycle_first_stair_count", t_int, "0", Handling::inert, "DeepSpeed stores it and has no stairs"},
    {"cycle_second_stair_count", t_int | t_null, "null", Handling::inert, "DeepSpeed stores it and has no stairs"},
    {"decay_step_size", t_int, "0", Handling::implemented},
    {"cycle_momentum", t_bool, "true", Handling::implemented},
    {"cycle_min_mom", t_real, "0.8", Handling::implemented},
    {"cycle_max_mom", t_real, "0.9", Handling::implemented},
    {"decay_mom_rate", t_real, "0.0", Handling::implemented},
    {"last_batch_iteration", t_int, "-1", Handling::refused, from_the_start},
};

constexpr Key scheduler_params_lrrangetest_keys[] = {
    {"lr_range_test_min_lr", t_real | t_list, "0.001", Handling::implemented},
    {"lr_range_test_step_size", t_int, "2000", Handling::implemented},
    {"lr_range_test_step_rate", t_real, "1.0", Handling::implemented},
    {"lr_range_test_staircase", t_bool, "false", Handling::implemented},
    {"last_batch_iteration", t_int, "-1", Handling::refused, from_the_start},
};

// Those that zrt does not have.
constexpr Section refused_table[] = {
    {"optimizer.params", "lamb", Parser::legacy, nullptr, optimizer_params_lamb_keys},
    {"optimizer.params", "onebitadam", Parser::legacy, nullptr, optimizer_params_onebitadam_keys},
    {"optimizer.params", "zerooneadam", Parser::legacy, nullptr, optimizer_params_zerooneadam_keys},
    {"optimizer.params", "onebitlamb", Parser::legacy, nullptr, optimizer_params_onebitlamb_keys},
    {"optimizer.params", "adagrad, CPU", Parser::legacy, nullptr, optimizer_params_adagrad_cpu_keys},
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
    std::vector<Section> all{{"optimizer", "", Parser::legacy, nullptr, optimizer_keys}};
    for (const optimizer::OptimizerSpec* spec : optimizer::optimizer_specs()) {
      all.push_back({"optimizer.params", spec->variant, Parser::legacy, nullptr, spec->keys});
    }
    all.insert(all.end(), std::begin(refused_table), std::end(refused_table));
    all.insert(all.end(), std::begin(scheduler_table), std::end(scheduler_table));
    return all;
  }();
  return table;
}

}  // namespace zrt::runtime::configuration

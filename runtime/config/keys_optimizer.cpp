// Optimizers and learning-rate schedules.
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key optimizer_keys[] = {
    {"type", t_text | t_null, "null", Handling::implemented},
    {"params", t_object | t_null, "null", Handling::implemented},
    {"legacy_fusion", t_bool, "false", Handling::inert, "a switch of the fp16 wrapper"},
};

constexpr Key optimizer_params_adam_adamw_keys[] = {
    {"lr", t_real, "0.001", Handling::implemented},
    {"betas", t_list, "[0.9, 0.999]", Handling::implemented},
    {"eps", t_real, "1e-08", Handling::implemented},
    {"weight_decay", t_real, "0.0", Handling::implemented},
    {"bias_correction", t_bool, "true", Handling::implemented},
    {"amsgrad", t_bool, "false", Handling::refused, "AMSGrad is not supported"},
    {"torch_adam", t_bool, "false", Handling::inert, "there is one Adam implementation"},
    {"adam_w_mode", t_bool, "true", Handling::implemented},
    {"fp32_optimizer_states", t_bool, "true", Handling::refused, "memory.moments chooses the form of moments"},
    {"max_grad_norm", t_never, nullptr, Handling::refused, "use the top-level key gradient_clipping"},
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

constexpr Key optimizer_params_lion_keys[] = {
    {"lr", t_real, "0.001", Handling::implemented},
    {"betas", t_list, "[0.9, 0.999]", Handling::implemented},
    {"weight_decay", t_real, "0.0", Handling::implemented},
    {"max_grad_norm", t_never, nullptr, Handling::refused, "use the top-level key gradient_clipping"},
};

// DeepSpeed passes these to torch.optim.SGD.
constexpr Key optimizer_params_sgd_keys[] = {
    {"lr", t_real, "0.001", Handling::implemented},
    {"momentum", t_real, "0.0", Handling::implemented},
    {"dampening", t_real, "0.0", Handling::implemented},
    {"weight_decay", t_real, "0.0", Handling::implemented},
    {"nesterov", t_bool, "false", Handling::implemented},
    {"maximize", t_bool, "false", Handling::refused, "the loss is minimised"},
    {"foreach", t_bool | t_null, "null", Handling::inert, "there is one implementation"},
    {"differentiable", t_bool, "false", Handling::refused, "there is no autograd"},
    {"fused", t_bool | t_null, "null", Handling::inert, "there is one implementation"},
    {"max_grad_norm", t_never, nullptr, Handling::refused, "use the top-level key gradient_clipping"},
};

// Those of Hugging Face's Adafactor.
constexpr Key optimizer_params_adafactor_keys[] = {
    {"lr", t_real | t_null, "null", Handling::implemented},
    {"eps", t_list, "[1e-30, 0.001]", Handling::implemented},
    {"clip_threshold", t_real, "1.0", Handling::implemented},
    {"decay_rate", t_real, "-0.8", Handling::implemented},
    {"beta1", t_real | t_null, "null", Handling::implemented},
    {"weight_decay", t_real, "0.0", Handling::implemented},
    {"scale_parameter", t_bool, "true", Handling::implemented},
    {"relative_step", t_bool, "true", Handling::implemented},
    {"warmup_init", t_bool, "false", Handling::implemented},
    {"max_grad_norm", t_never, nullptr, Handling::refused, "use the top-level key gradient_clipping"},
};

constexpr Key optimizer_params_adagrad_cpu_keys[] = {
    {"lr", t_real, "0.01", Handling::refused, "Adagrad is not supported"},
    {"eps", t_real, "1e-10", Handling::refused, "Adagrad is not supported"},
    {"weight_decay", t_real, "0.0", Handling::refused, "Adagrad is not supported"},
};

constexpr Key optimizer_params_muon_keys[] = {
    {"lr", t_real, "null", Handling::refused, "Muon is not supported"},
    {"momentum", t_real, "0.95", Handling::refused, "Muon is not supported"},
    {"weight_decay", t_real, "0.0", Handling::refused, "Muon is not supported"},
    {"muon_lr", t_real, "null", Handling::refused, "Muon is not supported"},
    {"adam_lr", t_real, "null", Handling::refused, "Muon is not supported"},
    {"ns_method", t_text, R"("gram")", Handling::refused, "Muon is not supported"},
    {"betas", t_list, "[0.9, 0.95]", Handling::refused, "Muon is not supported"},
    {"eps", t_real, "1e-10", Handling::refused, "Muon is not supported"},
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

constexpr Section optimizer_table[] = {
    {"optimizer", "", Parser::legacy, nullptr, optimizer_keys},
    {"optimizer.params", "adam, adamw", Parser::legacy, nullptr, optimizer_params_adam_adamw_keys},
    {"optimizer.params", "lamb", Parser::legacy, nullptr, optimizer_params_lamb_keys},
    {"optimizer.params", "onebitadam", Parser::legacy, nullptr, optimizer_params_onebitadam_keys},
    {"optimizer.params", "zerooneadam", Parser::legacy, nullptr, optimizer_params_zerooneadam_keys},
    {"optimizer.params", "onebitlamb", Parser::legacy, nullptr, optimizer_params_onebitlamb_keys},
    {"optimizer.params", "lion", Parser::legacy, nullptr, optimizer_params_lion_keys},
    {"optimizer.params", "sgd", Parser::legacy, nullptr, optimizer_params_sgd_keys},
    {"optimizer.params", "adafactor", Parser::legacy, nullptr, optimizer_params_adafactor_keys},
    {"optimizer.params", "adagrad, CPU", Parser::legacy, nullptr, optimizer_params_adagrad_cpu_keys},
    {"optimizer.params", "muon", Parser::legacy, nullptr, optimizer_params_muon_keys},
    {"scheduler", "", Parser::legacy, nullptr, scheduler_keys},
    {"scheduler.params", "WarmupLR", Parser::legacy, nullptr, scheduler_params_warmuplr_keys},
    {"scheduler.params", "WarmupDecayLR", Parser::legacy, nullptr, scheduler_params_warmupdecaylr_keys},
    {"scheduler.params", "WarmupCosineLR", Parser::legacy, nullptr, scheduler_params_warmupcosinelr_keys},
    {"scheduler.params", "OneCycle", Parser::legacy, nullptr, scheduler_params_onecycle_keys},
    {"scheduler.params", "LRRangeTest", Parser::legacy, nullptr, scheduler_params_lrrangetest_keys},
};

}  // namespace

std::span<const Section> optimizer_sections() {
  return optimizer_table;
}

}  // namespace zrt::runtime::configuration

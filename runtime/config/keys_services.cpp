// Profilers, monitors, tuners and services.
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key flops_profiler_keys[] = {
    {"enabled", t_bool, "false", Use::inert, "the profile is not written; summary.json holds model_flops_per_second"},
    {"recompute_fwd_factor", t_real, "0.0", Use::inert},
    {"profile_step", t_int, "1", Use::inert},
    {"module_depth", t_int, "-1", Use::inert},
    {"top_modules", t_int, "1", Use::inert},
    {"detailed", t_bool, "true", Use::inert},
    {"output_file", t_text | t_null, "null", Use::inert},
};

constexpr Key tensorboard_keys[] = {
    {"enabled", t_bool, "false", Use::implemented},
    {"output_path", t_text, R"("")", Use::implemented},
    {"job_name", t_text, R"("DeepSpeedJobName")", Use::implemented},
};

constexpr Key csv_monitor_keys[] = {
    {"enabled", t_bool, "false", Use::implemented},
    {"output_path", t_text, R"("")", Use::implemented},
    {"job_name", t_text, R"("DeepSpeedJobName")", Use::implemented},
};

constexpr Key wandb_keys[] = {
    {"enabled", t_bool, "false", Use::inert, "nothing is sent to other services; metrics.jsonl holds every step"},
    {"group", t_text | t_null, "null", Use::inert},
    {"team", t_text | t_null, "null", Use::inert},
    {"project", t_text, R"("deepspeed")", Use::inert},
};

constexpr Key comet_keys[] = {
    {"enabled", t_bool, "false", Use::inert, "nothing is sent to other services; metrics.jsonl holds every step"},
    {"samples_log_interval", t_int, "100", Use::inert},
    {"project", t_text | t_null, "null", Use::inert},
    {"workspace", t_text | t_null, "null", Use::inert},
    {"api_key", t_text | t_null, "null", Use::inert},
    {"experiment_name", t_text | t_null, "null", Use::inert},
    {"experiment_key", t_text | t_null, "null", Use::inert},
    {"online", t_bool | t_null, "null", Use::inert},
    {"mode", t_text | t_null, "null", Use::inert},
};

constexpr Key nebula_keys[] = {
    {"enabled", t_bool, "false", Use::refused, "there is no such checkpoint engine"},
    {"persistent_storage_path", t_text | t_null, "null", Use::inert},
    {"persistent_time_interval", t_int, "100", Use::inert},
    {"num_of_version_in_retention", t_int, "2", Use::inert},
    {"enable_nebula_load", t_bool, "true", Use::inert},
    {"nebula_load_path", t_text | t_null, "null", Use::inert},
};

constexpr Key comms_logger_keys[] = {
    {"enabled", t_bool, "false", Use::inert, "collectives are not logged; summary.json counts the bytes of each kind"},
    {"prof_all", t_bool, "true", Use::inert},
    {"prof_ops", t_list, "[]", Use::inert},
    {"verbose", t_bool, "false", Use::inert},
    {"debug", t_bool, "false", Use::inert},
};

constexpr Key elasticity_keys[] = {
    {"enabled", t_bool, "false", Use::refused, "elastic batch sizes are not supported; give the batch keys"},
    {"max_train_batch_size", t_int, "2000", Use::inert},
    {"micro_batch_sizes", t_list, "[2, 4, 6]", Use::inert},
    {"min_gpus", t_int, "1", Use::inert},
    {"max_gpus", t_int, "10000", Use::inert},
    {"num_gpus_per_node", t_int, "1", Use::inert},
    {"model_parallel_size", t_int, "1", Use::inert},
    {"min_time", t_int | t_natural, "0", Use::inert},
    {"prefer_larger_batch", t_bool, "true", Use::inert},
    {"prefer_large_batch", t_bool, "true", Use::inert},
    {"ignore_non_elastic_batch_info", t_bool, "false", Use::inert},
    {"version", t_real, "0.2", Use::inert},
};

constexpr Key autotuning_keys[] = {
    {"enabled", t_bool, "false", Use::refused, "there is no autotuner"},
    {"fast", t_bool, "true", Use::inert},
    {"results_dir", t_text, R"("autotuning_results")", Use::inert},
    {"exps_dir", t_text, R"("autotuning_exps")", Use::inert},
    {"overwrite", t_bool, "true", Use::inert},
    {"start_profile_step", t_int, "3", Use::inert},
    {"end_profile_step", t_int, "5", Use::inert},
    {"metric", t_text, R"("throughput")", Use::inert},
    {"metric_path", t_text | t_null, "null", Use::inert},
    {"tuner_type", t_text, R"("gridsearch")", Use::inert},
    {"tuner_early_stopping", t_int, "5", Use::inert},
    {"tuner_num_trials", t_int, "50", Use::inert},
    {"arg_mappings", t_object | t_null, "null", Use::inert},
    {"model_info", t_object | t_null, "null", Use::inert},
    {"model_info_path", t_text | t_null, "null", Use::inert},
    {"mp_size", t_int, "1", Use::inert},
    {"max_train_batch_size", t_int | t_null, "null", Use::inert},
    {"min_train_batch_size", t_int, "1", Use::inert},
    {"max_train_micro_batch_size_per_gpu", t_int, "1024", Use::inert},
    {"min_train_micro_batch_size_per_gpu", t_int, "1", Use::inert},
    {"num_tuning_micro_batch_sizes", t_int, "3", Use::inert},
};

constexpr Key autotuning_model_info_keys[] = {
    {"profile", t_bool, "false", Use::inert},
    {"num_params", t_int | t_null, "null", Use::inert},
    {"hidden_size", t_int | t_null, "null", Use::inert},
    {"num_layers", t_int | t_null, "null", Use::inert},
};

constexpr Key hybrid_engine_keys[] = {
    {"enabled", t_bool, "false", Use::refused, "there is no hybrid engine"},
    {"max_out_tokens", t_int, "512", Use::inert},
    {"inference_tp_size", t_int, "1", Use::inert},
    {"release_inference_cache", t_bool, "false", Use::inert},
    {"pin_parameters", t_bool, "true", Use::inert},
    {"tp_gather_partition_size", t_int, "8", Use::inert},
    {"enable_cuda_graph", t_bool, "false", Use::inert},
};

constexpr Key eigenvalue_keys[] = {
    {"enabled", t_bool, "false", Use::refused, "curvature is not estimated"},
    {"verbose", t_bool, "false", Use::inert},
    {"max_iter", t_int, "100", Use::inert},
    {"tol", t_real, "0.01", Use::inert},
    {"stability", t_real, "1e-06", Use::inert},
    {"gas_boundary_resolution", t_int, "1", Use::inert},
    {"layer_name", t_text, R"("bert.encoder.layer")", Use::inert},
    {"layer_num", t_int, "0", Use::inert},
};

constexpr Section service_table[] = {
    {"flops_profiler", "", Parser::legacy, "enabled", flops_profiler_keys},
    {"tensorboard", "", Parser::strict, "enabled", tensorboard_keys},
    {"csv_monitor", "", Parser::strict, "enabled", csv_monitor_keys},
    {"wandb", "", Parser::strict, "enabled", wandb_keys},
    {"comet", "", Parser::strict, "enabled", comet_keys},
    {"nebula", "", Parser::legacy, "enabled", nebula_keys},
    {"comms_logger", "", Parser::strict, "enabled", comms_logger_keys},
    {"elasticity", "", Parser::legacy, "enabled", elasticity_keys},
    {"autotuning", "", Parser::legacy, "enabled", autotuning_keys},
    {"autotuning.model_info", "", Parser::legacy, nullptr, autotuning_model_info_keys},
    {"hybrid_engine", "", Parser::strict, "enabled", hybrid_engine_keys},
    {"eigenvalue", "", Parser::legacy, "enabled", eigenvalue_keys},
};

}  // namespace

std::span<const Section> services_sections() {
  return service_table;
}

}  // namespace zrt::runtime::configuration

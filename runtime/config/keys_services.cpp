// Profilers, monitors, tuners and services.
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key flops_profiler_keys[] = {
    {"enabled", t_bool, "false", Handling::inert,
     "the profile is not written; summary.json holds model_flops_per_second"},
    {"recompute_fwd_factor", t_real, "0.0", Handling::inert},
    {"profile_step", t_int, "1", Handling::inert},
    {"module_depth", t_int, "-1", Handling::inert},
    {"top_modules", t_int, "1", Handling::inert},
    {"detailed", t_bool, "true", Handling::inert},
    {"output_file", t_text | t_null, "null", Handling::inert},
};

constexpr Key tensorboard_keys[] = {
    key("enabled", t_bool, "false", Effect::reports,
        "Write the numbers of each step for TensorBoard too (docs/report.md)."),
    key("output_path", t_text, R"("")", Effect::reports,
        "Folder of the files; a relative one lies below the working folder."),
    key("job_name", t_text, R"("DeepSpeedJobName")", Effect::reports,
        "Name of the folder in it, not empty and without '..'."),
};

constexpr Key csv_monitor_keys[] = {
    key("enabled", t_bool, "false", Effect::reports,
        "Write the numbers of each step for spreadsheets, as CSV, too (docs/report.md)."),
    key("output_path", t_text, R"("")", Effect::reports,
        "Folder of the files; a relative one lies below the working folder."),
    key("job_name", t_text, R"("DeepSpeedJobName")", Effect::reports,
        "Name of the folder in it, not empty and without '..'."),
};

constexpr Key wandb_keys[] = {
    {"enabled", t_bool, "false", Handling::inert, "nothing is sent to other services; metrics.jsonl holds every step"},
    {"group", t_text | t_null, "null", Handling::inert},
    {"team", t_text | t_null, "null", Handling::inert},
    {"project", t_text, R"("deepspeed")", Handling::inert},
};

constexpr Key comet_keys[] = {
    {"enabled", t_bool, "false", Handling::inert, "nothing is sent to other services; metrics.jsonl holds every step"},
    {"samples_log_interval", t_int, "100", Handling::inert},
    {"project", t_text | t_null, "null", Handling::inert},
    {"workspace", t_text | t_null, "null", Handling::inert},
    {"api_key", t_text | t_null, "null", Handling::inert},
    {"experiment_name", t_text | t_null, "null", Handling::inert},
    {"experiment_key", t_text | t_null, "null", Handling::inert},
    {"online", t_bool | t_null, "null", Handling::inert},
    {"mode", t_text | t_null, "null", Handling::inert},
};

constexpr Key nebula_keys[] = {
    {"enabled", t_bool, "false", Handling::refused, "there is no such checkpoint engine"},
    {"persistent_storage_path", t_text | t_null, "null", Handling::inert},
    {"persistent_time_interval", t_int, "100", Handling::inert},
    {"num_of_version_in_retention", t_int, "2", Handling::inert},
    {"enable_nebula_load", t_bool, "true", Handling::inert},
    {"nebula_load_path", t_text | t_null, "null", Handling::inert},
};

constexpr Key comms_logger_keys[] = {
    {"enabled", t_bool, "false", Handling::inert,
     "collectives are not logged; summary.json counts the bytes of each kind"},
    {"prof_all", t_bool, "true", Handling::inert},
    {"prof_ops", t_list, "[]", Handling::inert},
    {"verbose", t_bool, "false", Handling::inert},
    {"debug", t_bool, "false", Handling::inert},
};

constexpr Key elasticity_keys[] = {
    {"enabled", t_bool, "false", Handling::refused, "elastic batch sizes are not supported; give the batch keys"},
    {"max_train_batch_size", t_int, "2000", Handling::inert},
    {"micro_batch_sizes", t_list, "[2, 4, 6]", Handling::inert},
    {"min_gpus", t_int, "1", Handling::inert},
    {"max_gpus", t_int, "10000", Handling::inert},
    {"num_gpus_per_node", t_int, "1", Handling::inert},
    {"model_parallel_size", t_int, "1", Handling::inert},
    {"min_time", t_int | t_natural, "0", Handling::inert},
    {"prefer_larger_batch", t_bool, "true", Handling::inert},
    {"prefer_large_batch", t_bool, "true", Handling::inert},
    {"ignore_non_elastic_batch_info", t_bool, "false", Handling::inert},
    {"version", t_real, "0.2", Handling::inert},
};

constexpr Key autotuning_keys[] = {
    {"enabled", t_bool, "false", Handling::refused, "there is no autotuner"},
    {"fast", t_bool, "true", Handling::inert},
    {"results_dir", t_text, R"("autotuning_results")", Handling::inert},
    {"exps_dir", t_text, R"("autotuning_exps")", Handling::inert},
    {"overwrite", t_bool, "true", Handling::inert},
    {"start_profile_step", t_int, "3", Handling::inert},
    {"end_profile_step", t_int, "5", Handling::inert},
    {"metric", t_text, R"("throughput")", Handling::inert},
    {"metric_path", t_text | t_null, "null", Handling::inert},
    {"tuner_type", t_text, R"("gridsearch")", Handling::inert},
    {"tuner_early_stopping", t_int, "5", Handling::inert},
    {"tuner_num_trials", t_int, "50", Handling::inert},
    {"arg_mappings", t_object | t_null, "null", Handling::inert},
    {"model_info", t_object | t_null, "null", Handling::inert},
    {"model_info_path", t_text | t_null, "null", Handling::inert},
    {"mp_size", t_int, "1", Handling::inert},
    {"max_train_batch_size", t_int | t_null, "null", Handling::inert},
    {"min_train_batch_size", t_int, "1", Handling::inert},
    {"max_train_micro_batch_size_per_gpu", t_int, "1024", Handling::inert},
    {"min_train_micro_batch_size_per_gpu", t_int, "1", Handling::inert},
    {"num_tuning_micro_batch_sizes", t_int, "3", Handling::inert},
};

constexpr Key autotuning_model_info_keys[] = {
    {"profile", t_bool, "false", Handling::inert, "there is no autotuner"},
    {"num_params", t_int | t_null, "null", Handling::inert, "there is no autotuner"},
    {"hidden_size", t_int | t_null, "null", Handling::inert, "there is no autotuner"},
    {"num_layers", t_int | t_null, "null", Handling::inert, "there is no autotuner"},
};

constexpr Key hybrid_engine_keys[] = {
    {"enabled", t_bool, "false", Handling::refused, "there is no hybrid engine"},
    {"max_out_tokens", t_int, "512", Handling::inert},
    {"inference_tp_size", t_int, "1", Handling::inert},
    {"release_inference_cache", t_bool, "false", Handling::inert},
    {"pin_parameters", t_bool, "true", Handling::inert},
    {"tp_gather_partition_size", t_int, "8", Handling::inert},
    {"enable_cuda_graph", t_bool, "false", Handling::inert},
};

constexpr Key eigenvalue_keys[] = {
    {"enabled", t_bool, "false", Handling::refused, "curvature is not estimated"},
    {"verbose", t_bool, "false", Handling::inert},
    {"max_iter", t_int, "100", Handling::inert},
    {"tol", t_real, "0.01", Handling::inert},
    {"stability", t_real, "1e-06", Handling::inert},
    {"gas_boundary_resolution", t_int, "1", Handling::inert},
    {"layer_name", t_text, R"("bert.encoder.layer")", Handling::inert},
    {"layer_num", t_int, "0", Handling::inert},
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

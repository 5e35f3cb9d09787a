// ZeRO and offload: their keys, and what reads those of zero_optimization.
#include "core/mesh.h"
#include "optimizer/zero.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

constexpr const char* staged = "what is moved is staged unit by unit; memory.unit_bytes sets the unit";
constexpr const char* ordered =
    "the step's program orders transfers and updates; zero_optimization.overlap_comm lets them run beside computation";

constexpr Key zero_keys[] = {
    key("stage", t_int, "0", between(0, 3), Effect::cost,
        "What is divided among ranks: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too. It sets the "
        "default of parallel.reduce_every."),
    {"contiguous_gradients", t_bool, "true", Handling::inert, "gradients always lie in one contiguous arena"},
    {"reduce_scatter", t_bool, "true", Handling::inert, "every stage reduces by reduce-scatter"},
    key("reduce_bucket_size", t_int | t_natural, "500000000", Effect::cost,
        "Elements of gradients that are collected for one reduction."),
    {"use_multi_rank_bucket_allreduce", t_bool, "true", Handling::inert, "every bucket is one collective"},
    {"allgather_partitions", t_bool, "true", Handling::inert, "weights are always gathered by all-gather"},
    key("allgather_bucket_size", t_int | t_natural, "500000000", Effect::cost,
        "Elements of updated weights that one gather takes, at stage 1 and 2."),
    key("overlap_comm", t_bool | t_null, "null", Effect::cost,
        "Whether transfers run beside computation; null: at stage 3 they do, and in a pipeline where all of its stages "
        "have the memory."),
    {"load_from_fp32_weights", t_bool, "true", Handling::refused, "fp32 weights are the only source of a restore"},
    {"elastic_checkpoint", t_bool, "false", Handling::inert, "a checkpoint resumes on any number of ranks anyway"},
    {.name = "offload_param",
     .types = t_object | t_null,
     .fallback = "null",
     .handling = Handling::inert,
     .help = "Weights outside the device."},
    {.name = "offload_optimizer",
     .types = t_object | t_null,
     .fallback = "null",
     .handling = Handling::inert,
     .help = "Optimizer states outside the device."},
    {"zenflow", t_object | t_null, "null", Handling::refused, "ZenFlow is not supported"},
    {"sub_group_size", t_int | t_natural, "1000000000", Handling::inert,
     "the optimizer runs unit by unit; memory.unit_bytes sets the unit"},
    {.name = "stage3_prefetch_bucket_size",
     .types = t_int | t_natural,
     .fallback = "50000000",
     .alias = "prefetch_bucket_size",
     .effect = Effect::cost,
     .help = "Elements of weights that are gathered ahead of their use; left out: the next block, whatever its size."},
    {.name = "stage3_param_persistence_threshold",
     .types = t_int | t_natural,
     .fallback = "100000",
     .alias = "param_persistence_threshold",
     .effect = Effect::cost,
     .help = "Parameters with fewer elements than this are kept whole on every rank; left out: none."},
    {.name = "stage3_model_persistence_threshold",
     .types = t_int | t_natural,
     .fallback = "9223372036854775807",
     .alias = "model_persistence_threshold",
     .effect = Effect::cost,
     .help = "The most elements of all parameters that are kept whole on every rank."},
    {.name = "stage3_max_live_parameters",
     .types = t_int | t_natural,
     .fallback = "1000000000",
     .alias = "max_live_parameters",
     .effect = Effect::cost,
     .help = "The most elements of weights that are gathered at a time."},
    {.name = "stage3_max_reuse_distance",
     .types = t_int | t_natural,
     .fallback = "1000000000",
     .alias = "max_reuse_distance",
     .effect = Effect::cost,
     .help = "Weights that are used again within so many elements stay gathered."},
    {"stage3_gather_16bit_weights_on_model_save", t_bool, "false", Handling::inert,
     "the weights file always holds whole tensors", nullptr, "gather_16bit_weights_on_model_save"},
    {"stage3_module_granularity_threshold", t_int, "0", Handling::inert, "memory.unit_bytes sets the granule", nullptr,
     "module_granularity_threshold"},
    {"stage3_use_all_reduce_for_fetch_params", t_bool, "false", Handling::inert,
     "weights are always gathered by all-gather", nullptr, "use_all_reduce_for_fetch_params"},
    {"stage3_allgather_sequential", t_bool, "false", Handling::inert, "gathers are placed by the step program", nullptr,
     "allgather_sequential"},
    {"stage3_gather_fp16_weights_on_model_save", t_bool | t_old, "false", Handling::inert,
     "the weights file always holds whole tensors"},
    {"ignore_unused_parameters", t_bool, "true", Handling::inert, "the static program uses every parameter"},
    {"legacy_stage1", t_bool, "false", Handling::refused, "the legacy stage 1 is not supported; stage 1 is"},
    {"round_robin_gradients", t_bool, "false", Handling::inert,
     "every rank moves its own shard, in the order of the backward"},
    key("zero_hpz_partition_size", t_int | t_natural, "1", between(0, core::Mesh::max_ranks), Effect::cost,
        "Ranks of a group, such as those of a host, that keeps the weights it has gathered in a step; 0 or 1: no "
        "groups."),
    {"zero_quantized_weights", t_bool, "false", Handling::refused, "quantized gathers are not supported"},
    {"zero_quantized_nontrainable_weights", t_bool, "false", Handling::refused, "quantized gathers are not supported"},
    {"zero_quantized_gradients", t_bool, "false", Handling::refused, "quantized reductions are not supported"},
    {"zeropp_loco_param", t_object | t_null, "null", Handling::refused, "LoCo is not supported"},
    key("mics_shard_size", t_int, "-1", between(-1, core::Mesh::max_ranks), Effect::results,
        "Ranks of a group that holds all states and repeats those of the other groups; -1 or 0: one group of all "
        "ranks."),
    {"mics_hierarchical_params_gather", t_bool, "false", Handling::inert,
     "inside a MiCS group every gather is one collective"},
    {"memory_efficient_linear", t_bool, "true", Handling::inert, "gradients are written by hand"},
    {"pipeline_loading_checkpoint", t_bool, "false", Handling::inert,
     "it orders the loading of checkpoints between ranks"},
    {"override_module_apply", t_bool, "true", Handling::inert, "there are no Python modules"},
    {"log_trace_cache_warnings", t_bool, "false", Handling::inert, "there is no trace cache"},
    {"enable_sanity_checks", t_bool, "false", Handling::inert, "every program is verified before it runs"},
    {"save_muon_momentum_buffer_in_memory", t_bool, "false", Handling::inert,
     "memory.placement says where states live"},
    {"leaf_module", t_object, nullptr, Handling::inert, "there are no Python modules"},
    key("cpu_offload", t_bool | t_null | t_old, "null", Effect::cost,
        "Old name: true is offload_optimizer.device = cpu."),
    key("cpu_offload_param", t_bool | t_null | t_old, "null", Effect::cost,
        "Old name: true is offload_param.device = cpu."),
    {"cpu_offload_use_pin_memory", t_bool | t_null, "null", Handling::inert, "the run's device decides what is pinned"},
    {"grad_hooks", t_never, nullptr, Handling::refused, "DeepSpeed documents this key and rejects it"},
};

constexpr Key zero_offload_param_keys[] = {
    {.name = "device",
     .types = t_text,
     .fallback = R"("none")",
     .note = "below zero_optimization.stage 3 DeepSpeed ignores it; memory.placement moves weights at every stage",
     .legal = one_of("none cpu nvme"),
     .effect = Effect::cost,
     .help = "Where weights live between uses, at stage 3; none: on the device."},
    key("nvme_path", t_text | t_null, "null", Effect::cost,
        "Folder of the files of weights on NVMe; null: memory.nvme_path."),
    {"buffer_count", t_int | t_natural, "5", Handling::inert, staged},
    {"buffer_size", t_int | t_natural, "100000000", Handling::inert, staged},
    key("max_in_cpu", t_int | t_natural, "1000000000", Effect::cost,
        "Elements of weights that stay on the host where the others are on NVMe; left out: none."),
    {"pin_memory", t_bool, "true", Handling::inert, "the run's device decides what is pinned"},
};

constexpr Key zero_offload_optimizer_keys[] = {
    key("device", t_text, R"("none")", one_of("none cpu nvme"), Effect::cost,
        "Where optimizer states live; none: on the device."),
    key("nvme_path", t_text | t_null, "null", Effect::cost,
        "Folder of the files of optimizer states on NVMe; null: memory.nvme_path."),
    {"buffer_count", t_int | t_natural, "4", Handling::inert, staged},
    {"pin_memory", t_bool, "true", Handling::inert, "the run's device decides what is pinned"},
    {"pipeline_read", t_bool, "false", Handling::inert, ordered},
    {"pipeline_write", t_bool, "false", Handling::inert, ordered},
    {"fast_init", t_bool, "false", Handling::inert, "states are written once, where they live"},
    key("ratio", t_real, "1.0", between(0, 1), Effect::cost, "The share of optimizer states that is moved."),
    {"super_offload", t_bool, "false", Handling::inert, ordered},
    {"cpuadam_cores_perc", t_real, "0.8", Handling::inert, "run.threads_per_rank sets the threads of an update"},
};

constexpr Key zero_zenflow_keys[] = {
    {"topk_ratio", t_real, "0.1", Handling::refused, "ZenFlow is not supported"},
    {"select_strategy", t_text, R"("auto")", Handling::refused, "ZenFlow is not supported"},
    {"select_interval", t_int | t_auto, R"("auto")", Handling::refused, "ZenFlow is not supported"},
    {"update_interval", t_int | t_auto, R"("auto")", Handling::refused, "ZenFlow is not supported"},
    {"overlap_step", t_bool, "false", Handling::refused, "ZenFlow is not supported"},
    {"offload", t_bool, "false", Handling::refused, "ZenFlow is not supported"},
    {"auto_ratio", t_real, "0.99", Handling::refused, "ZenFlow is not supported"},
    {"full_warm_up_rounds", t_int, "0", Handling::refused, "ZenFlow is not supported"},
    {"pt_reserved_cores_perc", t_real, "0.5", Handling::refused, "ZenFlow is not supported"},
    {"steps_per_epoch", t_int | t_null, "null", Handling::refused, "ZenFlow is not supported"},
};

constexpr Key zero_leaf_module_keys[] = {
    {"classes", t_list,
     R"(["transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock", "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock", "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock"])",
     Handling::inert, "there are no Python modules"},
    {"names", t_list, "[]", Handling::inert, "there are no Python modules"},
    {"name_suffixes", t_list, "[]", Handling::inert, "there are no Python modules"},
};

constexpr Key zero_zeropp_loco_param_keys[] = {
    {"err_beta", t_real, "0.8", Handling::refused, "LoCo is not supported"},
    {"reset_T", t_int, "1024", Handling::refused, "LoCo is not supported"},
};

constexpr Section zero_table[] = {
    {"zero_optimization", "", Parser::strict, nullptr, zero_keys},
    {"zero_optimization.offload_param", "", Parser::strict, "device", zero_offload_param_keys},
    {"zero_optimization.offload_optimizer", "", Parser::strict, "device", zero_offload_optimizer_keys},
    {"zero_optimization.zenflow", "", Parser::strict, nullptr, zero_zenflow_keys},
    {"zero_optimization.leaf_module", "", Parser::strict, nullptr, zero_leaf_module_keys},
    {"zero_optimization.zeropp_loco_param", "", Parser::legacy, nullptr, zero_zeropp_loco_param_keys},
};

}  // namespace

std::span<const Section> zero_sections() {
  return zero_table;
}

ZeroConfig build_zero(Values& values) {
  ZeroConfig zero;
  zero.stage = static_cast<int>(values.integer("zero_optimization.stage"));
  zero.reduce_bucket_size = values.integer("zero_optimization.reduce_bucket_size");
  zero.allgather_bucket_size = values.integer("zero_optimization.allgather_bucket_size");
  zero.max_reuse_distance = values.integer("zero_optimization.stage3_max_reuse_distance");
  constexpr const char *prefetch = "zero_optimization.stage3_prefetch_bucket_size",
                       *threshold = "zero_optimization.stage3_param_persistence_threshold";
  if (values.given(prefetch)) {
    zero.prefetch_bucket_size = values.integer(prefetch);
  } else {
    values.infer(prefetch, nullptr, "the next block, whatever its size");
  }
  zero.max_live_parameters = values.integer("zero_optimization.stage3_max_live_parameters");
  // Stage 3 is chosen for memory: nothing persists unless it is asked for.
  if (!values.given(threshold)) values.infer(threshold, 0);
  zero.param_persistence_threshold = values.integer(threshold);
  zero.model_persistence_threshold = values.integer("zero_optimization.stage3_model_persistence_threshold");
  const std::string overlap = "zero_optimization.overlap_comm";
  const bool always = optimizer::zero_strategy(zero.stage).overlap_by_default();
  zero.open_overlap = values.is_null(overlap) && !always && values.integer("parallel.pipeline") > 1;
  if (values.is_null(overlap) && !zero.open_overlap) values.infer(overlap, always);
  zero.overlap_comm = !zero.open_overlap && values.flag(overlap);
  return zero;
}

// Gradients are always divided before they are summed; DeepSpeed refuses the wish where it reduces by scatter.
void check_prescale(Values& values, const ZeroConfig& zero) {
  const Value& prescale = values.at("prescale_gradients");
  if (prescale.value != true) return;
  const bool scatters = optimizer::zero_strategy(zero.stage).grads == optimizer::Extent::shard;
  if (scatters && values.flag("zero_optimization.reduce_scatter")) {
    refuse(prescale,
           "is refused with zero_optimization.reduce_scatter at stage 2 and 3, as in DeepSpeed. Leave it out: "
           "it changes nothing here.");
  }
  warn_without_effect(values, prescale);
}

}  // namespace zrt::runtime::configuration

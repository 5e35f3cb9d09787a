// Precision, activation checkpoints, files and the engine.
#include "core/mesh.h"
#include "optimizer/loss_scale.h"
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key fp16_keys[] = {
    key("enabled", t_bool, "false", Effect::results, "Weights and activations are fp16."),
    key("auto_cast", t_bool, "false", Effect::nothing, "Whether inputs are converted to fp16; token ids are not."),
    key("loss_scale", t_real, "0.0", between(0, 0x1p127), Effect::results,
        "The factor of the loss that keeps small gradients above 0; 0: it follows overflows."),
    key("initial_scale_power", t_int, "16", between(optimizer::least_scale_power, 127), Effect::results,
        "The first factor is 2 to this power, where it follows overflows."),
    key("loss_scale_window", t_int, "1000", at_least(1), Effect::results,
        "Steps without an overflow after which the factor doubles."),
    key("hysteresis", t_int, "2", at_least(1), Effect::results, "Overflows after which the factor halves."),
    key("consecutive_hysteresis", t_bool, "false", Effect::results,
        "Whether a step without an overflow makes the count of hysteresis begin anew."),
    key("min_loss_scale", t_int, "1", between(0, 0x1p53), Effect::results,
        "The smallest factor; an overflow there ends the run. 0: 2^-14, below which fp16 has no normal numbers."),
    key("fp16_master_weights_and_grads", t_bool, "false", Effect::nothing,
        "Whether optimizers work on fp16 copies; they work on fp32 ones."),
};

constexpr Key bf16_keys[] = {
    key("enabled", t_bool, "false", Effect::results, "Weights and activations are bf16."),
    {"immediate_grad_update", t_bool, "false", Handling::inert,
     "gradients enter the accumulator as soon as they are reduced"},
    {"check_grad_overflow", t_bool, "true", Handling::refused, "a step with a non-finite gradient is always skipped"},
    {"bf16_master_weights_and_grads", t_bool, "false", Handling::refused,
     "memory.master says whether there are fp32 master weights"},
    {"bf16_optimizer_states", t_bool, "false", Handling::refused, "memory.moments chooses the form of moments"},
};

constexpr Key data_types_keys[] = {
    {.name = "grad_accum_dtype",
     .types = t_text | t_null | t_any_case,
     .fallback = "null",
     .note = "with one microbatch in a step nothing is accumulated",
     .legal = one_of(dtypes),
     .effect = Effect::results,
     .help = "The type in which gradients of microbatches are summed; null: fp32 where there are several. bf16, with "
             "weights of bf16, rounds the sum behind each microbatch and takes half the memory."},
    {"param_dtype", t_text | t_null, "null", Handling::refused,
     "bf16.enabled and fp16.enabled set the type of the weights"},
    {"buffer_dtype", t_text | t_null, "null", Handling::refused,
     "bf16.enabled and fp16.enabled set the type of buffers"},
};

constexpr Key amp_keys[] = {
    {"enabled", t_bool, "false", Handling::refused, "Apex is not supported; bf16.enabled is"},
    {"opt_level", t_text, "null", Handling::inert},
};

constexpr Key torch_autocast_keys[] = {
    {"enabled", t_bool, "false", Handling::refused, "autocast is not supported; bf16.enabled is"},
    {"dtype", t_text | t_null, "null", Handling::inert},
    {"lower_precision_safe_modules", t_list | t_null, "null", Handling::inert},
};

constexpr Key activation_checkpointing_keys[] = {
    key("partition_activations", t_bool, "false", Effect::results,
        "DeepSpeed's wish that tensor-parallel ranks divide what is kept for the backward: as parallel.sequence."),
    {"number_checkpoints", t_int | t_null, "null", Handling::inert,
     "memory.recompute says which layers are computed again"},
    {"contiguous_memory_optimization", t_bool, "false", Handling::inert, "activations always lie in one arena"},
    {"synchronize_checkpoint_boundary", t_bool, "false", Handling::inert, "the step's program orders recomputation"},
    {"profile", t_bool, "false", Handling::inert,
     "its timers are not printed; run.trace draws every operation of a step"},
    key("cpu_checkpointing", t_bool, "false", Effect::cost, "Keep activations for the backward on the host."),
};

constexpr const char* own_io = "the nvme tier has one way of reading and writing";

constexpr Key aio_keys[] = {
    {"block_size", t_int, "1048576", Handling::inert, own_io},
    {"queue_depth", t_int, "8", Handling::inert, own_io},
    {"intra_op_parallelism", t_int, "1", Handling::inert, own_io},
    {"thread_count", t_int, "1", Handling::inert, "DeepSpeed ignores it: the key is intra_op_parallelism"},
    {"single_submit", t_bool, "false", Handling::inert, own_io},
    {"overlap_events", t_bool, "true", Handling::inert, own_io},
    {"use_gds", t_bool, "false", Handling::refused, "GPUDirect Storage is not supported"},
};

constexpr Key pipeline_keys[] = {
    key("stages", t_int | t_auto, R"("auto")", between(1, core::Mesh::max_ranks), Effect::results,
        "DeepSpeed's name of parallel.pipeline; auto: as that says."),
    key("partition", t_text, R"("best")", one_of("best parameters uniform"), Effect::cost,
        "DeepSpeed's name of parallel.partition; best: as that says."),
    {"seed_layers", t_bool, "false", Handling::inert, "weights are initialised per tensor"},
    {"activation_checkpoint_interval", t_int, "0", Handling::inert,
     "memory.recompute says which layers are computed again"},
    {"pipe_partitioned", t_bool, "true", Handling::inert, "tensor-parallel ranks always send each its share"},
    {"grad_partitioned", t_bool, "true", Handling::inert, "tensor-parallel ranks always send each its share"},
    {"use_reentrant", t_bool | t_null, "null", Handling::inert, "there is no autograd"},
};

constexpr Key checkpoint_keys[] = {
    {"tag_validation", t_text, R"("WARN")", Handling::inert, "there are no checkpoint tags"},
    {"load_universal", t_bool, "false", Handling::inert, "every checkpoint resumes on any number of ranks"},
    {"use_node_local_storage", t_bool, "false", Handling::refused, "weights are written once, by one rank"},
    {.name = "parallel_write",
     .types = t_object,
     .fallback = "{}",
     .handling = Handling::inert,
     .help = "Checkpoints written by several ranks."},
    {"checkpoint_serialization", t_bool, "true", Handling::inert, "weights are always written to a file"},
    {"writer", t_object | t_null, "null", Handling::refused, "the writer cannot be chosen"},
};

constexpr Key checkpoint_parallel_write_keys[] = {
    {"pipeline_stage", t_bool, "false", Handling::inert, "every rank writes its part in any case"},
};

constexpr Key checkpoint_writer_keys[] = {
    {"type", t_text, R"("FAST")", Handling::refused, "the writer cannot be chosen"},
    {"io_buffer_size", t_int, "67108864", Handling::refused, "the writer cannot be chosen"},
    {"io_buffer_double", t_bool, "true", Handling::refused, "the writer cannot be chosen"},
    {"show_statistics", t_bool, "false", Handling::refused, "the writer cannot be chosen"},
    {"data_parallel", t_text | t_null, "null", Handling::refused, "the writer cannot be chosen"},
    {"decoupled", t_bool, "false", Handling::refused, "the writer cannot be chosen"},
    {"io_multiplier", t_int, "1", Handling::refused, "the writer cannot be chosen"},
};

constexpr Key timers_keys[] = {
    {.name = "throughput",
     .types = t_object,
     .fallback = "{}",
     .handling = Handling::inert,
     .help = "Tokens in a second."},
};

constexpr Key timers_throughput_keys[] = {
    {"enabled", t_bool, "true", Handling::inert, "throughput is always measured"},
    {"synchronized", t_bool, "true", Handling::inert, "a step is timed from end to end"},
};

constexpr Key compile_keys[] = {
    {"deepcompile", t_bool, "false", Handling::refused, "there is nothing to compile: steps run from a static program"},
    {"free_activation", t_bool, "false", Handling::inert},
    {"free_activation_threshold", t_int, "10485760", Handling::inert},
    {"offload_activation", t_bool, "false", Handling::inert},
    {"offload_activation_pin_memory", t_bool, "true", Handling::inert},
    {"offload_opt_states", t_bool, "false", Handling::inert},
    {"double_buffer", t_bool, "true", Handling::inert},
    {"symmetric_memory", t_bool, "false", Handling::inert},
    {"debug_log", t_bool, "false", Handling::inert},
    {"offload_parameters", t_bool, "false", Handling::inert},
    {"sync_before_reduce", t_bool, "false", Handling::inert},
    {"sync_after_reduce", t_bool, "false", Handling::inert},
    {"sync_before_allgather", t_bool, "false", Handling::inert},
    {"sync_after_allgather", t_bool, "false", Handling::inert},
    {"keep_int_input_tensors", t_bool, "true", Handling::inert},
    {"keep_all_input_tensors", t_bool, "false", Handling::inert},
    {"passes", t_list | t_null, "null", Handling::inert},
};

constexpr Key tensor_parallel_keys[] = {
    key("autotp_size", t_int, "0", between(0, 1 << 10), Effect::results, "As parallel.tensor; 0: that says it."),
    {"tp_overlap_comm", t_bool, "false", Handling::inert, "zero_optimization.overlap_comm says it of all lanes"},
    {"preset_model", t_text | t_null, "null", Handling::inert, "every model knows how its tensors are cut"},
    {"partition_config", t_object | t_null, "null", Handling::inert, "every model knows how its tensors are cut"},
    {"dtype", t_text, R"("torch.float16")", Handling::inert, "bf16 and fp16 say it"},
    {.name = "tp",
     .types = t_object,
     .fallback = "{}",
     .handling = Handling::inert,
     .alias = "tensor_parallel",
     .help = "The groups of ranks."},
    {"injection_policy_tuple", t_list | t_null, "null", Handling::inert, "every model knows how its tensors are cut"},
    {"keep_module_on_host", t_bool, "false", Handling::inert, "memory.placement says it"},
    {"kernel_inject", t_bool, "false", Handling::inert, "every back end has kernels of its own", nullptr,
     "replace_with_kernel_inject"},
};

constexpr Key tensor_parallel_tp_keys[] = {
    key("tp_size", t_int, "1", between(1, 1 << 10), Effect::results, "As parallel.tensor; 1: that says it."),
    {"tp_grain_size", t_int, "1", Handling::inert, "parts of ranks are equal"},
    {"mpu", t_object | t_null, "null", Handling::inert, "the mesh follows from the section parallel"},
    {"tp_group", t_object | t_null, "null", Handling::inert, "the mesh follows from the section parallel"},
};

constexpr Key weight_quantization_keys[] = {
    {"enabled", t_bool, "true", Handling::inert, "no quantization rule is in force"},
    {"num_bits", t_int, "8", Handling::inert, "no quantization rule is in force"},
    {"q_type", t_text, R"("symmetric")", Handling::inert, "no quantization rule is in force"},
    {"q_groups", t_int, "1", Handling::inert, "no quantization rule is in force"},
    {"quantized_initialization", t_object, "{}", Handling::refused, "quantized weights are not supported"},
    {"post_init_quant", t_object, "{}", Handling::refused, "quantized weights are not supported"},
};

constexpr Section engine_table[] = {
    {"fp16", "", Parser::strict, "enabled", fp16_keys},
    {"bf16", "", Parser::strict, nullptr, bf16_keys},
    {"data_types", "", Parser::legacy, nullptr, data_types_keys},
    {"amp", "", Parser::legacy, "enabled", amp_keys},
    {"torch_autocast", "", Parser::legacy, "enabled", torch_autocast_keys},
    {"activation_checkpointing", "", Parser::legacy, nullptr, activation_checkpointing_keys},
    {"aio", "", Parser::legacy, nullptr, aio_keys},
    {"pipeline", "", Parser::legacy, nullptr, pipeline_keys},
    {"checkpoint", "", Parser::legacy, nullptr, checkpoint_keys},
    {"checkpoint.parallel_write", "", Parser::legacy, nullptr, checkpoint_parallel_write_keys},
    {"checkpoint.writer", "", Parser::legacy, nullptr, checkpoint_writer_keys},
    {"timers", "", Parser::legacy, nullptr, timers_keys},
    {"timers.throughput", "", Parser::strict, nullptr, timers_throughput_keys},
    {"compile", "", Parser::strict, "deepcompile", compile_keys},
    {"tensor_parallel", "", Parser::strict, nullptr, tensor_parallel_keys},
    {"tensor_parallel.tp", "", Parser::strict, nullptr, tensor_parallel_tp_keys},
    {"weight_quantization", "", Parser::strict, nullptr, weight_quantization_keys},
};

}  // namespace

std::span<const Section> engine_sections() {
  return engine_table;
}

}  // namespace zrt::runtime::configuration

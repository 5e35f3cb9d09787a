// Top-level keys of DeepSpeed, the sections among them.
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

// Its own keys say why it has no effect.
constexpr Key inert_section(const char* name, const char* help) {
  return {.name = name, .types = t_object, .fallback = "null", .handling = Handling::inert, .help = help};
}

constexpr Key root_keys[] = {
    key("train_batch_size", t_int | t_null, "null", between(1, most), Effect::results,
        "Samples of a step, over all ranks; null: micro-batch × accumulation steps × ranks."),
    key("train_micro_batch_size_per_gpu", t_int | t_null, "null", between(1, most), Effect::results,
        "Samples that one rank computes at a time; null: what the other batch keys leave, or 1 without "
        "train_batch_size."),
    key("gradient_accumulation_steps", t_int | t_null, "null", between(1, most), Effect::results,
        "Microbatches of a rank in a step; null: what the other batch keys leave."),
    {"managed_gradient_accumulation", t_bool, "true", Handling::refused,
     "microbatches are always counted by the runtime"},
    {"zero_allow_untested_optimizer", t_bool, "false", Handling::inert,
     "every optimizer offered here works with every stage"},
    {"zero_force_ds_cpu_optimizer", t_bool, "true", Handling::inert, "the optimizer is always our own"},
    key("gradient_clipping", t_real, "1.0", at_least(0), Effect::results,
        "A gradient with a larger norm than this is scaled down to it; 0: none is."),
    key("communication_data_type", t_text | t_null | t_any_case, "null", one_of(dtypes), Effect::results,
        "The type in which gradients travel between ranks; null: that of the weights, or fp32 where a rank sums "
        "first."),
    {"seq_parallel_communication_data_type", t_text | t_null, R"("fp32")", Handling::inert,
     "there are no sequence-parallel gradients"},
    key("gradient_allreduce_op", t_text | t_any_case, R"("mean")", one_of("mean"), Effect::nothing,
        "How gradients of ranks become one: their mean."),
    {.name = "prescale_gradients",
     .types = t_bool,
     .fallback = "false",
     .note = "gradients are always scaled before they are summed, through the loss",
     .effect = Effect::nothing,
     .help = "Whether gradients are divided before they are summed."},
    {"gradient_predivide_factor", t_real, "1.0", Handling::refused, "gradients are scaled once, through the loss"},
    {"sparse_gradients", t_bool, "false", Handling::inert, "embedding gradients are reduced densely, to the same sums"},
    {"disable_allgather", t_bool, "false", Handling::inert, "a legacy switch"},
    {"dump_state", t_bool, "false", Handling::inert, "config.resolved.json holds the state"},
    {"graph_harvesting", t_bool, "false", Handling::inert, "steps run from a static program"},
    {"dataloader_drop_last", t_bool, "false", Handling::inert, "every batch is complete"},
    key("steps_per_print", t_int | t_null, "null", at_least(1), Effect::reports,
        "Steps from one printed line to the next, where run.log_interval is left out; null: 10."),
    {"wall_clock_breakdown", t_bool, "false", Handling::inert,
     "per-phase timers are not printed; metrics.jsonl holds the seconds of every step"},
    {"memory_breakdown", t_bool, "false", Handling::inert, "memory.json reports every rank, tier and category"},
    {"log_level", t_text | t_null, "null", Handling::inert, "log lines are not filtered by the configuration"},
    {"vocabulary_size", t_int | t_null, "null", Handling::inert, "model.vocab sets the vocabulary"},
    {"allgather_size", t_int, "500000000", Handling::inert, "only the boolean form of zero_optimization reads it"},
    {"sequence_parallel_size", t_int, "null", Handling::refused,
     "ranks that have parts of a sample's attention, as DeepSpeed-Ulysses does, are not supported; parallel.sequence "
     "lets "
     "tensor-parallel ranks share rows",
     "[1]"},
    {"use_data_before_expert_parallelism", t_bool, "false", Handling::inert,
     "which ranks divide experts follows from the section parallel"},
    {"datastates_ckpt", t_any, "false", Handling::refused, "there is no such checkpoint engine"},
    key("optimizer", t_object, "null", "The rule by which gradients change weights."),
    key("scheduler", t_object, "null", "How the learning rate changes from step to step."),
    key("fp16", t_object, "null", "Weights and activations of 16-bit floats, with a scale for the loss."),
    {.name = "bf16",
     .types = t_object,
     .fallback = "null",
     .alias = "bfloat16",
     .help = "Weights and activations of bfloat16."},
    key("zero_optimization", t_object | t_bool, "null",
        "What of the training state is divided among ranks, and how its transfers are made."),
    inert_section("activation_checkpointing",
                  "What of activations is kept for the backward; memory.recompute says more."),
    inert_section("aio", "How files on NVMe are read and written."),
    inert_section("flops_profiler", "A profile of operations."),
    inert_section("tensorboard", "The numbers of each step for TensorBoard."),
    inert_section("csv_monitor", "The numbers of each step as CSV."),
    inert_section("wandb", "The numbers of each step for Weights & Biases."),
    inert_section("comet", "The numbers of each step for Comet."),
    inert_section("pipeline", "Stages of DeepSpeed's pipeline."),
    inert_section("checkpoint", "How checkpoints are written and read."),
    inert_section("nebula", "Checkpoints by Nebula."),
    inert_section("comms_logger", "A log of collectives."),
    inert_section("timers", "What is timed."),
    inert_section("elasticity", "Batch sizes for a changing number of ranks."),
    inert_section("autotuning", "A search for the fastest configuration."),
    key("data_types", t_object, "null", "The type in which gradients are summed."),
    inert_section("amp", "Mixed precision by Apex."),
    inert_section("torch_autocast", "Mixed precision by PyTorch."),
    inert_section("tensor_parallel", "Layers divided among ranks."),
    inert_section("expert_parallel", "Experts divided among ranks."),
    key("sparse_attention", t_object, "null", "Attention that computes only the blocks that a pattern keeps."),
    inert_section("progressive_layer_drop", "Layers left out at random."),
    inert_section("curriculum_learning", "Samples from easy to hard."),
    inert_section("data_efficiency", "Choice of samples and tokens."),
    inert_section("compression_training", "Quantization and pruning while training."),
    inert_section("quantize_training", "Quantization while training."),
    inert_section("eigenvalue", "An estimate of curvature."),
    inert_section("hybrid_engine", "Training and generation in turns."),
    inert_section("compile", "Compilation of the model."),
    inert_section("weight_quantization", "Weights quantized for inference."),
};

constexpr Section root_table[] = {
    {"", "", Parser::legacy, nullptr, root_keys},
};

}  // namespace

std::span<const Section> root_sections() {
  return root_table;
}

}  // namespace zrt::runtime::configuration

// Top-level keys of DeepSpeed, the sections among them.
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key root_keys[] = {
    {"train_batch_size", t_int | t_null, "null", Use::implemented},
    {"train_micro_batch_size_per_gpu", t_int | t_null, "null", Use::implemented},
    {"gradient_accumulation_steps", t_int | t_null, "null", Use::implemented},
    {"managed_gradient_accumulation", t_bool, "true", Use::refused, "microbatches are always counted by the runtime"},
    {"zero_allow_untested_optimizer", t_bool, "false", Use::inert,
     "every optimizer offered here works with every stage"},
    {"zero_force_ds_cpu_optimizer", t_bool, "true", Use::inert, "the optimizer is always our own"},
    {"gradient_clipping", t_real, "1.0", Use::implemented},
    {"communication_data_type", t_text | t_null, "null", Use::implemented},
    {"seq_parallel_communication_data_type", t_text | t_null, R"("fp32")", Use::inert,
     "there are no sequence-parallel gradients"},
    {"gradient_allreduce_op", t_text, R"("mean")", Use::implemented},
    {"prescale_gradients", t_bool, "false", Use::implemented,
     "gradients are always scaled before they are summed, through the loss"},
    {"gradient_predivide_factor", t_real, "1.0", Use::refused, "gradients are scaled once, through the loss"},
    {"sparse_gradients", t_bool, "false", Use::inert, "embedding gradients are reduced densely, to the same sums"},
    {"disable_allgather", t_bool, "false", Use::inert, "a legacy switch"},
    {"dump_state", t_bool, "false", Use::inert, "config.resolved.json holds the state"},
    {"graph_harvesting", t_bool, "false", Use::inert, "steps run from a static program"},
    {"dataloader_drop_last", t_bool, "false", Use::inert, "every batch is complete"},
    {"steps_per_print", t_int | t_null, "null", Use::implemented},
    {"wall_clock_breakdown", t_bool, "false", Use::inert,
     "per-phase timers are not printed; metrics.jsonl holds the seconds of every step"},
    {"memory_breakdown", t_bool, "false", Use::inert, "memory.json reports every rank, tier and category"},
    {"log_level", t_text | t_null, "null", Use::inert, "log lines are not filtered by the configuration"},
    {"vocabulary_size", t_int | t_null, "null", Use::inert, "model.vocab sets the vocabulary"},
    {"allgather_size", t_int, "500000000", Use::inert, "only the boolean form of zero_optimization reads it"},
    {"sequence_parallel_size", t_int, "null", Use::refused, "sequence parallelism is not supported", "[1]"},
    {"use_data_before_expert_parallelism", t_bool, "false", Use::inert, "there are no expert groups"},
    {"datastates_ckpt", t_any, "false", Use::refused, "there is no such checkpoint engine"},
    {"optimizer", t_object, "null", Use::implemented},
    {"scheduler", t_object, "null", Use::implemented},
    {"fp16", t_object, "null", Use::implemented},
    {"bf16", t_object, "null", Use::implemented, "", nullptr, "bfloat16"},
    {"zero_optimization", t_object | t_bool, "null", Use::implemented},
    {"activation_checkpointing", t_object, "null", Use::inert},
    {"aio", t_object, "null", Use::inert},
    {"flops_profiler", t_object, "null", Use::inert},
    {"tensorboard", t_object, "null", Use::inert},
    {"csv_monitor", t_object, "null", Use::inert},
    {"wandb", t_object, "null", Use::inert},
    {"comet", t_object, "null", Use::inert},
    {"pipeline", t_object, "null", Use::inert},
    {"checkpoint", t_object, "null", Use::inert},
    {"nebula", t_object, "null", Use::inert},
    {"comms_logger", t_object, "null", Use::inert},
    {"timers", t_object, "null", Use::inert},
    {"elasticity", t_object, "null", Use::inert},
    {"autotuning", t_object, "null", Use::inert},
    {"data_types", t_object, "null", Use::implemented},
    {"amp", t_object, "null", Use::inert},
    {"torch_autocast", t_object, "null", Use::inert},
    {"tensor_parallel", t_object, "null", Use::inert},
    {"expert_parallel", t_object, "null", Use::inert},
    {"sparse_attention", t_object, "null", Use::refused, "sparse attention is not supported"},
    {"progressive_layer_drop", t_object, "null", Use::inert},
    {"curriculum_learning", t_object, "null", Use::inert},
    {"data_efficiency", t_object, "null", Use::inert},
    {"compression_training", t_object, "null", Use::inert},
    {"quantize_training", t_object, "null", Use::inert},
    {"eigenvalue", t_object, "null", Use::inert},
    {"hybrid_engine", t_object, "null", Use::inert},
    {"compile", t_object, "null", Use::inert},
    {"weight_quantization", t_object, "null", Use::inert},
};

constexpr Section root_table[] = {
    {"", "", Parser::legacy, nullptr, root_keys},
};

}  // namespace

std::span<const Section> root_sections() {
  return root_table;
}

}  // namespace zrt::runtime::configuration

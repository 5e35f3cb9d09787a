// Top-level keys of DeepSpeed, the sections among them.
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key root_keys[] = {
    {"train_batch_size", t_int | t_null, "null", Handling::implemented},
    {"train_micro_batch_size_per_gpu", t_int | t_null, "null", Handling::implemented},
    {"gradient_accumulation_steps", t_int | t_null, "null", Handling::implemented},
    {"managed_gradient_accumulation", t_bool, "true", Handling::refused,
     "microbatches are always counted by the runtime"},
    {"zero_allow_untested_optimizer", t_bool, "false", Handling::inert,
     "every optimizer offered here works with every stage"},
    {"zero_force_ds_cpu_optimizer", t_bool, "true", Handling::inert, "the optimizer is always our own"},
    {"gradient_clipping", t_real, "1.0", Handling::implemented},
    {"communication_data_type", t_text | t_null, "null", Handling::implemented},
    {"seq_parallel_communication_data_type", t_text | t_null, R"("fp32")", Handling::inert,
     "there are no sequence-parallel gradients"},
    {"gradient_allreduce_op", t_text, R"("mean")", Handling::implemented},
    {"prescale_gradients", t_bool, "false", Handling::implemented,
     "gradients are always scaled before they are summed, through the loss"},
    {"gradient_predivide_factor", t_real, "1.0", Handling::refused, "gradients are scaled once, through the loss"},
    {"sparse_gradients", t_bool, "false", Handling::inert, "embedding gradients are reduced densely, to the same sums"},
    {"disable_allgather", t_bool, "false", Handling::inert, "a legacy switch"},
    {"dump_state", t_bool, "false", Handling::inert, "config.resolved.json holds the state"},
    {"graph_harvesting", t_bool, "false", Handling::inert, "steps run from a static program"},
    {"dataloader_drop_last", t_bool, "false", Handling::inert, "every batch is complete"},
    {"steps_per_print", t_int | t_null, "null", Handling::implemented},
    {"wall_clock_breakdown", t_bool, "false", Handling::inert,
     "per-phase timers are not printed; metrics.jsonl holds the seconds of every step"},
    {"memory_breakdown", t_bool, "false", Handling::inert, "memory.json reports every rank, tier and category"},
    {"log_level", t_text | t_null, "null", Handling::inert, "log lines are not filtered by the configuration"},
    {"vocabulary_size", t_int | t_null, "null", Handling::inert, "model.vocab sets the vocabulary"},
    {"allgather_size", t_int, "500000000", Handling::inert, "only the boolean form of zero_optimization reads it"},
    {"sequence_parallel_size", t_int, "null", Handling::refused, "sequence parallelism is not supported", "[1]"},
    {"use_data_before_expert_parallelism", t_bool, "false", Handling::inert, "there are no expert groups"},
    {"datastates_ckpt", t_any, "false", Handling::refused, "there is no such checkpoint engine"},
    {"optimizer", t_object, "null", Handling::implemented},
    {"scheduler", t_object, "null", Handling::implemented},
    {"fp16", t_object, "null", Handling::implemented},
    {"bf16", t_object, "null", Handling::implemented, "", nullptr, "bfloat16"},
    {"zero_optimization", t_object | t_bool, "null", Handling::implemented},
    {"activation_checkpointing", t_object, "null", Handling::inert},
    {"aio", t_object, "null", Handling::inert},
    {"flops_profiler", t_object, "null", Handling::inert},
    {"tensorboard", t_object, "null", Handling::inert},
    {"csv_monitor", t_object, "null", Handling::inert},
    {"wandb", t_object, "null", Handling::inert},
    {"comet", t_object, "null", Handling::inert},
    {"pipeline", t_object, "null", Handling::inert},
    {"checkpoint", t_object, "null", Handling::inert},
    {"nebula", t_object, "null", Handling::inert},
    {"comms_logger", t_object, "null", Handling::inert},
    {"timers", t_object, "null", Handling::inert},
    {"elasticity", t_object, "null", Handling::inert},
    {"autotuning", t_object, "null", Handling::inert},
    {"data_types", t_object, "null", Handling::implemented},
    {"amp", t_object, "null", Handling::inert},
    {"torch_autocast", t_object, "null", Handling::inert},
    {"tensor_parallel", t_object, "null", Handling::inert},
    {"expert_parallel", t_object, "null", Handling::inert},
    {"sparse_attention", t_object, "null", Handling::refused, "sparse attention is not supported"},
    {"progressive_layer_drop", t_object, "null", Handling::inert},
    {"curriculum_learning", t_object, "null", Handling::inert},
    {"data_efficiency", t_object, "null", Handling::inert},
    {"compression_training", t_object, "null", Handling::inert},
    {"quantize_training", t_object, "null", Handling::inert},
    {"eigenvalue", t_object, "null", Handling::inert},
    {"hybrid_engine", t_object, "null", Handling::inert},
    {"compile", t_object, "null", Handling::inert},
    {"weight_quantization", t_object, "null", Handling::inert},
};

constexpr Section root_table[] = {
    {"", "", Parser::legacy, nullptr, root_keys},
};

}  // namespace

std::span<const Section> root_sections() {
  return root_table;
}

}  // namespace zrt::runtime::configuration

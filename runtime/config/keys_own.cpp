// The sections that DeepSpeed ignores.
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr Key own_root_keys[] = {
    {"model", t_object, "null", Use::implemented},    {"data", t_object, "null", Use::implemented},
    {"parallel", t_object, "null", Use::implemented}, {"memory", t_object, "null", Use::implemented},
    {"run", t_object, "null", Use::implemented},      {"fp8", t_object, "null", Use::implemented},
};

constexpr Key fp8_keys[] = {
    {"enabled", t_bool, "false", Use::implemented},
};

constexpr Key model_keys[] = {
    {"type", t_text | t_null, "null", Use::implemented},
    {"preset", t_text | t_null, "null", Use::implemented},
    {"layers", t_int | t_null, "null", Use::implemented},
    {"hidden", t_int | t_null, "null", Use::implemented},
    {"heads", t_int | t_null, "null", Use::implemented},
    {"sequence", t_int | t_null, "null", Use::implemented},
    {"vocab", t_int | t_null, "null", Use::implemented},
    {"dropout", t_real, "0.0", Use::implemented},
    {"tied", t_bool | t_null, "null", Use::implemented},
    // Llama only.
    {"kv_heads", t_int | t_null, "null", Use::implemented},
    {"ffn", t_int | t_null, "null", Use::implemented},
    {"rope_theta", t_real | t_null, "null", Use::implemented},
    {"rms_norm_eps", t_real | t_null, "null", Use::implemented},
    {"rope_scaling", t_object, "null", Use::implemented},
};

// Named and meant as in Hugging Face's config.json.
constexpr Key rope_scaling_keys[] = {
    {"rope_type", t_text | t_null, "null", Use::implemented},
    {"factor", t_real | t_null, "null", Use::implemented},
    {"low_freq_factor", t_real | t_null, "null", Use::implemented},
    {"high_freq_factor", t_real | t_null, "null", Use::implemented},
    {"original_max_position_embeddings", t_int | t_null, "null", Use::implemented},
};

constexpr Key data_keys[] = {
    {"train", t_text | t_list | t_null, "null", Use::implemented},
    {"validation", t_text | t_list | t_null, "null", Use::implemented},
};

constexpr Key parallel_keys[] = {
    {"tensor", t_int, "1", Use::refused, "tensor parallelism is not supported; all ranks are data-parallel"},
    {"pipeline", t_int, "1", Use::refused, "pipeline parallelism is not supported; all ranks are data-parallel"},
    {"virtual_pipeline", t_int, "1", Use::refused, "pipeline parallelism is not supported"},
    {"sequence", t_bool, "false", Use::refused, "sequence parallelism is not supported"},
    {"schedule", t_text, R"("1f1b")", Use::refused, "with one pipeline stage there is no other schedule"},
    {"reduce_every", t_int | t_null, "null", Use::implemented},
    {"hierarchical_ranks", t_int, "1", Use::implemented},
    {"cluster", t_text | t_null, "null", Use::implemented},
};

constexpr Key memory_keys[] = {
    {"device_budget_bytes", t_int | t_null, "null", Use::implemented},
    {"host_budget_bytes", t_int | t_null, "null", Use::implemented},
    {"unit_bytes", t_int, "67108864", Use::implemented},
    {"moments", t_text, R"("fp32")", Use::implemented},
    {"master", t_text, R"("fp32")", Use::implemented},
    {"nvme_budget_bytes", t_int | t_null, "null", Use::implemented},
    {"nvme_path", t_text | t_null, "null", Use::implemented},
    {"placement", t_text | t_list, R"("auto")", Use::implemented},
    {"update", t_text, R"("auto")", Use::implemented},
    {"update_when", t_text, R"("after_norm")", Use::implemented},
    {"recompute", t_text | t_list, R"("auto")", Use::implemented},
    {"microbatch_order", t_text, R"("auto")", Use::implemented},
    {"link_bytes_per_second", t_int | t_null, "null", Use::implemented},
};

constexpr Key run_keys[] = {
    {"steps", t_int, "1000", Use::implemented},
    {"seed", t_int, "1", Use::implemented},
    {"out", t_text | t_null, "null", Use::implemented},
    {"name", t_text | t_null, "null", Use::implemented},
    {"log_interval", t_int | t_null, "null", Use::implemented},
    {"log_samples", t_bool, "false", Use::implemented},
    {"eval_interval", t_int, "0", Use::implemented},
    {"eval_batches", t_int, "8", Use::implemented},
    {"checkpoint_interval", t_int, "0", Use::implemented},
    {"keep_last", t_int, "2", Use::implemented},
    {"keep_every", t_int, "0", Use::implemented},
    {"resume", t_text | t_null, "null", Use::implemented},
    {"load_module_only", t_bool, "false", Use::implemented},
    {"save_weights", t_bool, "true", Use::implemented},
    {"timeout_seconds", t_int, "120", Use::implemented},
    {"threads_per_rank", t_int, "1", Use::implemented},
    {"device", t_text, R"("cpu")", Use::implemented},
    {"kernel_table", t_text | t_null, "null", Use::implemented},
    {"trace", t_bool, "false", Use::implemented},
    {"trace_steps", t_list | t_null, "null", Use::implemented},
    {"stress_seed", t_int, "0", Use::implemented},
};

constexpr Section own_table[] = {
    {"", "zrt", Parser::own, nullptr, own_root_keys},
    {"fp8", "", Parser::own, nullptr, fp8_keys},
    {"model", "", Parser::own, nullptr, model_keys},
    {"model.rope_scaling", "", Parser::own, nullptr, rope_scaling_keys},
    {"data", "", Parser::own, nullptr, data_keys},
    {"parallel", "", Parser::own, nullptr, parallel_keys},
    {"memory", "", Parser::own, nullptr, memory_keys},
    {"run", "", Parser::own, nullptr, run_keys},
};

}  // namespace

std::span<const Section> own_sections() {
  return own_table;
}

}  // namespace zrt::runtime::configuration

// Features that change the model or its data: experts, sparsity, curricula, compression.
#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {
namespace {

constexpr const char* own_model = "a model of zrt's knows its own router and experts";
constexpr const char* own_products = "products of experts are zrt's own";
constexpr const char* plain_gates = "gates are the router's probabilities, not scaled";
constexpr const char* no_groups = "the router picks among all experts of a prototype (model.experts.prototypes)";
constexpr const char* own_shared = "model.experts.shared says how many experts all tokens pass through";

constexpr Key expert_parallel_keys[] = {
    {"enabled", t_bool, "false", Handling::refused, "parallel.expert, a key of zrt's own, divides experts among ranks"},
    {"autoep_size", t_int, "1", Handling::refused, "parallel.expert says how many ranks divide the experts"},
    {"expert_tensor_parallel_size", t_int, "1", Handling::refused,
     "parallel.tensor cuts experts as it cuts all matrices"},
    {"validate_folding_routing", t_bool, "false", Handling::inert, "groups of ranks are always checked"},
    {"preset_model", t_text | t_null, "null", Handling::inert, own_model},
    {"moe_layer_pattern", t_text | t_null, "null", Handling::inert, own_model},
    {"expert_pattern", t_text | t_null, "null", Handling::inert, own_model},
    {"router_pattern", t_text | t_null, "null", Handling::inert, own_model},
    {"use_grouped_mm", t_bool, "true", Handling::inert, own_products},
    {"disable_triton_grouped_mm", t_bool, "false", Handling::inert, own_products},
    {"route_norm", t_bool | t_null, "null", Handling::refused, "model.experts.norm_topk_prob says it"},
    {"route_scale", t_real, "1.0", Handling::refused, plain_gates},
    {"score_apply", t_text, R"("auto")", Handling::refused, "gates weigh what experts put out", R"(["post"])"},
    {"combine_impl", t_text, R"("auto")", Handling::inert, own_products},
    {"num_expert_groups", t_int | t_null, "null", Handling::refused, no_groups, "[1]"},
    {"num_limited_groups", t_int | t_null, "null", Handling::refused, no_groups, "[1]"},
    {"score_func", t_text, R"("auto")", Handling::refused, "the router's scores are a softmax", R"(["softmax"])"},
    {"top_k", t_int | t_auto, R"("auto")", Handling::refused, "model.experts.top_k says it"},
    {"load_balance_coeff", t_null, "null", Handling::inert,
     "experts have no bias; model.experts.aux_loss evens them out"},
    {"routed_scaling_factor", t_real | t_auto, R"("auto")", Handling::refused, plain_gates, "[1.0]"},
    {"expert_w1", t_text | t_null, "null", Handling::inert, own_model},
    {"expert_w2", t_text | t_null, "null", Handling::inert, own_model},
    {"expert_w3", t_text | t_null, nullptr, Handling::inert, own_model, "[null]"},
    {"num_experts_attr", t_text | t_null, "null", Handling::inert, own_model},
    {"top_k_attr", t_text | t_null, "null", Handling::inert, own_model},
    {"has_shared_experts", t_bool | t_null, "null", Handling::refused, own_shared, "[false]"},
    {"shared_experts_pattern", t_text | t_null, "null", Handling::inert, own_shared},
    {"shared_experts_gate_pattern", t_text | t_null, "null", Handling::inert, own_shared},
};

constexpr const char* other_mode = "it is of the modes \"variable\" and \"bigbird\", which are not supported";

// Positions and blocks of a pattern.
constexpr double most_blocks = 1 << 15;

constexpr Key sparse_attention_keys[] = {
    key("mode", t_text, R"("fixed")", one_of("dense fixed bslongformer local_sliding_window"), Effect::results,
        "fixed: a query attends to its window and to blocks that stand for every other one; bslongformer: to the "
        "blocks "
        "around its own and the first ones; local_sliding_window: to the blocks around its own; dense: to all."),
    key("block", t_int, "16", between(1, most_blocks), Effect::results,
        "Positions of a block. GPUs are fast with multiples of 16."),
    key("different_layout_per_head", t_bool, "false", Effect::results,
        "Whether heads may keep different blocks, as num_different_global_patterns says."),
    key("num_local_blocks", t_int, "4", between(1, most_blocks), Effect::results, "fixed: blocks of a window."),
    key("num_global_blocks", t_int, "1", between(1, most_blocks), Effect::results,
        "fixed: blocks of a window that stand for it; they divide num_local_blocks."),
    key("attention", t_text, R"("bidirectional")", one_of("unidirectional bidirectional"), Effect::results,
        "Whether queries attend to keys behind them, too; left out: what the model needs, unidirectional where it "
        "predicts "
        "the next token."),
    key("horizontal_global_attention", t_bool, "false", Effect::results,
        "fixed: whether queries of blocks that stand for a window attend to all keys; only of bidirectional "
        "attention."),
    key("num_different_global_patterns", t_int, "1", between(1, most_blocks), Effect::results,
        "fixed: heads take so many different blocks in turn, from the window's end, to stand for it."),
    {"num_random_blocks", t_int, "0", Handling::refused, other_mode},
    {"local_window_blocks", t_list, "[4]", Handling::refused, other_mode},
    key("global_block_indices", t_list, "[0]", Effect::results,
        "bslongformer: blocks that all queries attend to, counted up from 0."),
    key("global_block_end_indices", t_list | t_null, "null", Effect::results,
        "bslongformer: with global_block_indices [0], where the blocks end that all queries attend to; null: behind "
        "each "
        "index."),
    key("num_sliding_window_blocks", t_int, "3", between(1, most_blocks), Effect::results,
        "bslongformer, local_sliding_window: blocks around a query's own; half of them before it, half behind."),
    key("layers", t_text, R"("all")", one_of("all even odd"), Effect::results,
        "Which layers, counted from 0, have the pattern; the others are dense. A key of zrt's own."),
};

constexpr Key progressive_layer_drop_keys[] = {
    {"enabled", t_bool, "false", Handling::refused, "layers are never dropped"},
    {"theta", t_real, "1.0", Handling::inert},
    {"gamma", t_real, "0.001", Handling::inert},
};

constexpr Key curriculum_learning_keys[] = {
    {"enabled", t_bool, "false", Handling::refused, "curricula are not supported"},
    {"curriculum_type", t_text, nullptr, Handling::inert},
    {"min_difficulty", t_int, nullptr, Handling::inert},
    {"max_difficulty", t_int, nullptr, Handling::inert},
    {"schedule_type", t_text, nullptr, Handling::inert},
    {"schedule_config", t_object, "null", Handling::inert},
};

constexpr Key data_efficiency_keys[] = {
    {"enabled", t_bool, "false", Handling::inert, "nothing is sampled or routed unless its own block says so"},
    {"seed", t_int, "1234", Handling::inert},
    {"data_sampling", t_object, "null", Handling::refused, "data sampling is not supported"},
    {"data_routing", t_object, "null", Handling::refused, "data routing is not supported"},
};

constexpr Key compression_training_keys[] = {
    {"weight_quantization", t_object, "null", Handling::refused, "compression is not supported"},
    {"activation_quantization", t_object, "null", Handling::refused, "compression is not supported"},
    {"sparse_pruning", t_object, "null", Handling::refused, "compression is not supported"},
    {"row_pruning", t_object, "null", Handling::refused, "compression is not supported"},
    {"head_pruning", t_object, "null", Handling::refused, "compression is not supported"},
    {"channel_pruning", t_object, "null", Handling::refused, "compression is not supported"},
    {"layer_reduction", t_object, "null", Handling::refused, "compression is not supported"},
};

constexpr Key quantize_training_keys[] = {
    {"enabled", t_bool, "false", Handling::refused, "quantized training is not supported"},
    {"eigenvalue", t_object, "null", Handling::refused, "quantized training is not supported"},
};

constexpr Section model_feature_table[] = {
    {"expert_parallel", "", Parser::legacy, "enabled", expert_parallel_keys},
    {"sparse_attention", "", Parser::legacy, nullptr, sparse_attention_keys},
    {"progressive_layer_drop", "", Parser::legacy, "enabled", progressive_layer_drop_keys},
    {"curriculum_learning", "", Parser::legacy, "enabled", curriculum_learning_keys},
    {"data_efficiency", "", Parser::legacy, "enabled", data_efficiency_keys},
    {"compression_training", "", Parser::legacy, nullptr, compression_training_keys},
    {"quantize_training", "", Parser::legacy, "enabled", quantize_training_keys},
};

}  // namespace

std::span<const Section> model_features_sections() {
  return model_feature_table;
}

}  // namespace zrt::runtime::configuration

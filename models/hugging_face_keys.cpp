#include "models/hugging_face_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "models/hugging_face.h"

namespace zrt::models {
namespace {

// Keys of other architectures, or of options of these, that change what a model computes: only the value without effect
// is legal. A type that reads one of them lists it among its own keys.
constexpr ConfigKey without_effect[] = {
    {"adapters", "[null, {}]"},
    {"add_cross_attention", "[false, null]"},
    {"alibi", "[false, null]"},
    {"attention_bias", "[false, null]"},
    {"attention_chunk_size", "[null]"},
    {"attention_multiplier", "[null]"},
    {"attention_out_bias", "[false, null]"},
    {"attn_logit_softcapping", "[null]"},
    {"auto_map", "[null, {}]"},
    {"clip_qkv", "[null]"},
    {"compression_config", "[null, {}]"},
    {"cross_attention_hidden_size", "[null]"},
    {"dim_model_base", "[null]"},
    {"embedding_multiplier", "[1, null]"},
    {"embedding_size", "[null]"},
    {"final_logit_softcapping", "[null]"},
    {"is_causal", "[true, null]"},
    {"is_decoder", "[false, null]"},
    {"is_encoder_decoder", "[false, null]"},
    {"layer_types", "[null]"},
    {"lm_head_multiplier", "[1, null]"},
    {"logit_scale", "[1, null]"},
    {"logits_scaling", "[1, null]"},
    {"mlp_bias", "[false, null]"},
    {"moe_intermediate_size", "[0, null]"},
    {"multi_query", "[false, null]"},
    {"n_routed_experts", "[0, null]"},
    {"no_rope_layer_interval", "[0, null]"},
    {"no_rope_layers", "[null, []]"},
    {"num_experts", "[0, null]"},
    {"num_experts_per_tok", "[0, null]"},
    {"num_local_experts", "[0, null]"},
    {"num_nextn_predict_layers", "[0, null]"},
    {"original_max_position_embeddings", "[null]"},
    {"partial_rotary_factor", "[1, null]"},
    {"per_layer_config", "[null, {}]"},
    {"position_embedding_type", "[null]"},
    {"pruned_heads", "[null, {}]"},
    {"qk_layernorm", "[false, null]"},
    {"qk_norm", "[false, null]"},
    {"qkv_bias", "[false, null]"},
    {"quantization", "[null, {}]"},
    {"quantization_config", "[null, {}]"},
    {"query_pre_attn_scalar", "[null]"},
    {"residual_multiplier", "[1, null]"},
    {"rope_interleaved", "[false, null]"},
    {"rope_local_base_freq", "[null]"},
    {"rope_parameters", "[null, {}]"},
    {"rope_scaling", "[null, {}]"},
    {"rope_theta", "[null]"},
    {"rotary_dim", "[null]"},
    {"rotary_pct", "[1, null]"},
    {"scale_depth", "[null]"},
    {"scale_emb", "[1, null]"},
    {"scale_embedding", "[false, null]"},
    {"sliding_window", "[null]"},
    {"sliding_window_pattern", "[null]"},
    {"tie_encoder_decoder", "[false, null]"},
    {"use_alibi", "[false, null]"},
    {"use_mrope", "[false, null]"},
    {"use_parallel_residual", "[false, null]"},
    {"use_qk_norm", "[false, null]"},
    {"use_qkv_bias", "[false, null]"},
    {"use_sliding_window", "[false, null]"},
};

// Keys that every type reads, and those that say nothing of what a model computes: where the file comes from, how to
// train it, generate from it or label its output.
constexpr std::string_view harmless[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "architectures",
    "assistant_confidence_threshold",
    "assistant_lookbehind",
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "eos_token_id",
    "epsilon_cutoff",
    "eta_cutoff",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "initializer_range",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "prefix",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "sparse_attention",
    "suppress_tokens",
    "target_lookbehind",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_word_embeddings",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

bool is_size(const HuggingFaceForm& form, std::string_view key) {
  return std::any_of(form.sizes.begin(), form.sizes.end(), [&](const SizeKey& size) {
    return key == size.theirs || (size.other_name != nullptr && key == size.other_name);
  });
}

// Returns null for a key whose value does not matter, or that nothing knows, which `known` tells.
const ConfigKey* find_key(const HuggingFaceForm& form, std::string_view key, bool& known) {
  known = true;
  if (is_size(form, key)) return nullptr;
  for (const std::span<const ConfigKey> table : {form.keys, std::span<const ConfigKey>(without_effect)}) {
    for (const ConfigKey& row : table) {
      if (row.name == key) return *row.legal != '\0' ? &row : nullptr;
    }
  }
  known = std::find(std::begin(harmless), std::end(harmless), key) != std::end(harmless);
  return nullptr;
}

void check_architectures(const ModelSpec& spec, const OrderedJson& config, const std::string& name) {
  const auto found = config.find("architectures");
  if (found == config.end() || found->is_null()) return;
  const std::vector<const char*>& legal = spec.hugging_face.architectures;
  const auto is_legal = [&](const OrderedJson& each) {
    return each.is_string() && std::find(legal.begin(), legal.end(), each.get<std::string>()) != legal.end();
  };
  if (found->is_array() && std::all_of(found->begin(), found->end(), is_legal)) return;
  refuse_config(name, fmt::format("'architectures' is {}; of type \"{}\" zrt has {}. Weights with another head must be "
                                  "saved as one of these first",
                                  found->dump(), spec.type, fmt::join(legal, ", ")));
}

}  // namespace

void check_config_keys(const ModelSpec& spec, const OrderedJson& config, const std::string& name,
                       const std::function<void(const std::string&)>& warn) {
  check_architectures(spec, config, name);
  std::vector<std::string> unknown;
  for (const auto& [key, value] : config.items()) {
    bool known = false;
    const ConfigKey* row = find_key(spec.hugging_face, key, known);
    const std::string said = fmt::format("'{}' ({})", key, value.dump());
    if (!known) unknown.push_back(said);
    if (row == nullptr) continue;
    const OrderedJson legal = OrderedJson::parse(row->legal);
    if (std::find(legal.begin(), legal.end(), value) != legal.end()) continue;
    if (row->otherwise == ConfigKey::Otherwise::warn) {
      unknown.push_back(said);
      continue;
    }
    std::vector<std::string> values;
    for (const OrderedJson& each : legal) values.push_back(each.dump());
    refuse_config(name,
                  fmt::format("'{}' is {}, which changes what the model computes; zrt's model of type \"{}\" has {} "
                              "only",
                              key, value.dump(), spec.type, fmt::join(values, " and ")));
  }
  if (unknown.empty() || !warn) return;
  warn(core::printable(fmt::format("{}: zrt does not know {} and computes without; see whether the weights need it",
                                   name, fmt::join(unknown, ", "))));
}

}  // namespace zrt::models

#include "runtime/config/other_names.h"

#include <algorithm>
#include <string>

#include "core/keys/text.h"

namespace zrt::runtime::configuration {

const std::vector<OtherName>& other_names() {
  static const std::vector<OtherName> names{
      {"num_layers", "model.layers"},
      {"num_hidden_layers", "model.layers"},
      {"n_layer", "model.layers"},
      {"n_layers", "model.layers"},
      {"hidden_size", "model.hidden"},
      {"n_embd", "model.hidden"},
      {"d_model", "model.hidden"},
      {"num_attention_heads", "model.heads"},
      {"num_heads", "model.heads"},
      {"n_head", "model.heads"},
      {"n_heads", "model.heads"},
      {"num_key_value_heads", "model.kv_heads"},
      {"num_query_groups", "model.kv_heads"},
      {"kv_channels", "model.head_dim"},
      {"intermediate_size", "model.ffn"},
      {"ffn_hidden_size", "model.ffn"},
      {"max_position_embeddings", "model.sequence"},
      {"n_positions", "model.sequence"},
      {"n_ctx", "model.sequence"},
      {"block_size", "model.sequence"},
      {"seq_length", "model.sequence"},
      {"seq_len", "model.sequence"},
      {"max_seq_length", "model.sequence"},
      {"vocab_size", "model.vocab"},
      {"padded_vocab_size", "model.vocab"},
      {"tie_word_embeddings", "model.tied"},
      {"rotary_base", "model.rope_theta"},
      {"model_type", "model.type"},
      {"global_batch_size", "train_batch_size"},
      {"micro_batch_size", "train_micro_batch_size_per_gpu"},
      {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"},
      {"learning_rate", "optimizer.params.lr"},
      {"adam_beta1", "optimizer.params.betas"},
      {"adam_beta2", "optimizer.params.betas"},
      {"max_grad_norm", "gradient_clipping"},
      {"clip_grad", "gradient_clipping"},
      {"max_steps", "run.steps"},
      {"train_iters", "run.steps"},
      {"num_train_epochs", "run.epochs"},
      {"save_steps", "run.checkpoint_interval"},
      {"save_interval", "run.checkpoint_interval"},
      {"save_total_limit", "run.keep_last"},
      {"eval_steps", "run.eval_interval"},
      {"logging_steps", "run.log_interval"},
      {"output_dir", "run.out"},
      {"resume_from_checkpoint", "run.resume"},
      {"data_path", "data.train"},
      {"packing", "data.documents"},
      {"gradient_checkpointing", "memory.recompute"},
      {"recompute_granularity", "memory.recompute"},
      {"lora_alpha", "adapters.alpha"},
      {"lora_dropout", "adapters.dropout"},
      {"r", "adapters.rank"},
      {"target_modules", "adapters.targets"},
      {"use_rslora", "adapters.rslora"},
      {"load_in_4bit", "memory.frozen"},
      {"load_in_8bit", "memory.frozen"},
  };
  return names;
}

std::string_view key_named_elsewhere(std::string_view name) {
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '-', '_');
  const auto found = std::find_if(other_names().begin(), other_names().end(),
                                  [&](const OtherName& other) { return other.name == plain; });
  return found == other_names().end() ? std::string_view{} : found->key;
}

std::string optimizer_named_elsewhere(std::string_view type) {
  const std::string name = in_lower_case(type);
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("lamb") || has("onebit") || has("zerooneadam")) return "";
  if (has("adam") && (has("8bit") || has("4bit"))) {
    return std::string("AdamW with memory.moments = \"int8\" keeps moments in eight bits") +
           (has("paged") ? ", and memory.placement = \"host\" beside the GPU." : ".");
  }
  if (has("adam")) {
    return "Adam and AdamW are fused on every device, and memory.placement = \"host\" or offload_optimizer update "
           "states "
           "on the host.";
  }
  if (has("adafactor")) return "Adafactor is meant here.";
  if (has("muon")) return "Muon is meant here.";
  if (has("lion")) return "Lion is meant here; memory.moments = \"int8\" keeps its momentum in eight bits.";
  return "";
}

}  // namespace zrt::runtime::configuration

#include "models/llama/sizes.h"

namespace zrt::models {
namespace {

using namespace core::keys;

constexpr Key size_keys[] = {
    key("kv_heads", t_int | t_null, "null", between(1, 1 << 20), Effect::results,
        "Heads of keys and values, each shared by several heads of queries; null: model.heads."),
    key("head_dim", t_int | t_null, "null", between(1, 1 << 16), Effect::results,
        "Elements of a head; null: model.hidden / model.heads, of Qwen3 128, of Gemma 256."),
    key("ffn", t_int | t_null, "null", between(1, 1 << 22), Effect::results,
        "Elements between the two layers of a block's feed-forward part; null: about 8/3 of model.hidden."),
    key("rope_theta", t_real | t_null, "null", between(2, 1e12), Effect::results,
        "Base of the frequencies of rotary positions; null: 10000, of Qwen2, Qwen3, Mixtral and Gemma 3 "
        "1000000."),
    key("rms_norm_eps", t_real | t_null, "null", between(1e-12, 0.5), Effect::results,
        "What norms add to a mean square before they divide by its root; null: 1e-5, of Qwen2, Qwen3 and Gemma 1e-6."),
};

}  // namespace

std::span<const Key> llama_size_keys() {
  return size_keys;
}

LlamaConfig read_llama_sizes(Values& values, const ModelSizes& sizes, const LlamaDefaults& defaults,
                             const LlamaConfig& switches) {
  const bool given = !values.is_null("model.head_dim");
  if (!given && defaults.head_dim == 0) refuse_uneven_heads(values, sizes);
  LlamaConfig llama = switches;
  llama.layers = sizes.layers, llama.hidden = sizes.hidden, llama.heads = sizes.heads;
  llama.sequence = sizes.sequence, llama.vocab = sizes.vocab, llama.tied = sizes.tied;
  llama.degrees = sizes.degrees, llama.sparse = sizes.sparse, llama.adapters = sizes.adapters;
  const auto open = [&](const char* key, const nlohmann::json& fallback) {
    if (values.is_null(key)) values.infer(key, fallback);
  };
  open("model.kv_heads", sizes.heads);
  open("model.head_dim", defaults.head_dim == 0 ? sizes.hidden / sizes.heads : defaults.head_dim);
  open("model.ffn", llama_ffn(sizes.hidden));
  open("model.rope_theta", defaults.rope_theta);
  open("model.rms_norm_eps", defaults.rms_norm_eps);
  llama.kv_heads = values.integer("model.kv_heads");
  llama.head_dim = values.integer("model.head_dim");
  llama.ffn = values.integer("model.ffn");
  llama.rope_theta = values.real("model.rope_theta");
  llama.rms_norm_eps = static_cast<float>(values.real("model.rms_norm_eps"));
  values.check([&] {
    if (sizes.dropout == 0) return;
    refuse(values.at("model.dropout"),
           "is not supported; a model of type \"" + values.text("model.type") + "\" has no dropout. Legal: 0.");
  });
  if (llama.heads % llama.kv_heads != 0) {
    const std::string heads = std::to_string(llama.heads);
    refuse(values.at("model.kv_heads"), "does not divide model.heads = " + heads +
                                            ": every head of keys and values serves as many heads of queries. Try a "
                                            "divisor of " +
                                            heads + ", or leave it out.");
  }
  refuse_uneven_tensor(values, sizes, {{"model.heads", llama.heads}, {"model.kv_heads", llama.kv_heads}});
  if (llama.head_dim % 2 != 0) {
    const std::string need = "elements, but rotary positions need an even number. ";
    if (given) refuse(values.at("model.head_dim"), "makes heads of so many " + need + "Try 64 or 128.");
    refuse(values.at("model.heads"), "makes heads of " + std::to_string(llama.head_dim) + " " + need +
                                         "Try another divisor of model.hidden = " + std::to_string(llama.hidden) +
                                         ", or set model.head_dim.");
  }
  return llama;
}

}  // namespace zrt::models

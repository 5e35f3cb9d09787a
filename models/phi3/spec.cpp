// Phi-3 and Phi-4 (Abdin et al., "Phi-3 Technical Report", 2024): Llama's layers, of which Hugging Face's files hold
// queries, keys and values in one matrix, and the MLP's gate and up in another. zrt has each by itself, so that ranks
// share heads.
#include <fmt/format.h>

#include <array>

#include "models/hugging_face.h"
#include "models/llama/hugging_face.h"
#include "models/llama/rope_json.h"
#include "models/llama/sizes.h"

namespace zrt::models {
namespace {

MakeModel read_phi3(core::keys::Values& values, const ModelSizes& sizes) {
  const LlamaConfig config = read_llama_sizes(values, sizes, {});
  return [config] {
    Model model = make_llama(config);
    model.type = "phi3";
    return model;
  };
}

// As published, save that the sequence of phi-3-mini is that of its sliding window, up to which it sees all tokens. The
// small one reads bytes: 256 values and the end of a document.
std::vector<Preset> phi3_presets() {
  const auto sized = [](const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads, int64_t ffn,
                        int64_t sequence, int64_t vocab) {
    return Preset{name,
                  {{"layers", layers},
                   {"hidden", hidden},
                   {"heads", heads},
                   {"kv_heads", kv_heads},
                   {"ffn", ffn},
                   {"sequence", sequence},
                   {"vocab", vocab}}};
  };
  Preset phi4 = sized("phi-4", 40, 5120, 40, 10, 17920, 16384, 100352);
  phi4.keys["rope_theta"] = 250000;
  return {sized("phi3-tiny", 2, 64, 4, 2, 176, 32, 257), sized("phi-3-mini", 32, 3072, 32, 32, 8192, 2047, 32064),
          phi4};
}

constexpr SizeKey phi3_hf_sizes[] = {{"layers", "num_hidden_layers", 32},
                                     {"hidden", "hidden_size", 3072},
                                     {"heads", "num_attention_heads", 32},
                                     {"kv_heads", "num_key_value_heads", 0, true},
                                     {"head_dim", "head_dim", 0, true},
                                     {"ffn", "intermediate_size", 8192},
                                     {"sequence", "max_position_embeddings", 4096},
                                     {"vocab", "vocab_size", 32064}};
constexpr ConfigKey phi3_hf_keys[] = {
    {"attention_dropout", "[0, null]", ConfigKey::Otherwise::warn},
    {"embd_pdrop", "[0, null]", ConfigKey::Otherwise::warn},
    {"hidden_act", R"(["silu", "swish"])"},  // two names of one function
    {"original_max_position_embeddings"},    // of longrope, which is refused
    {"resid_pdrop", "[0, null]", ConfigKey::Otherwise::warn},
    {"rms_norm_eps"},
    {"rope_parameters"},
    {"rope_scaling"},
    {"rope_theta"},
    {"sliding_window"},
};

void write_phi3(const OrderedJson& model, OrderedJson& config) {
  write_llama_keys(model, config);
  config["sliding_window"] = nullptr;
  config["pad_token_id"] = nullptr;  // its default is an id of the published tokenizer, and must be below vocab_size
}

void parse_phi3(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  model["rms_norm_eps"] = number(config, "rms_norm_eps", 1e-5, name);
  read_rope(config, name, model, {"default"});
  const auto window = config.find("sliding_window");
  if (window == config.end() || window->is_null()) return;
  const int64_t tokens = positive_integer(config, "sliding_window", 0, name), sequence = model.at("sequence");
  if (tokens >= sequence) return;  // it never cuts anything off
  refuse_config(name,
                fmt::format("'sliding_window' is {} and 'max_position_embeddings' {}, but zrt's layers of this type "
                            "attend to all tokens before. Sequences of at most {} tokens are the same either way: "
                            "for those set max_position_embeddings to {}",
                            tokens, sequence, tokens, tokens));
}

// A matrix of the files, and the parameters whose rows it holds one behind the other.
struct Fused {
  const char* theirs;
  std::array<const char*, 3> ours;
};
constexpr Fused fused_names[] = {
    {".self_attn.qkv_proj.weight",
     {".self_attn.q_proj.weight", ".self_attn.k_proj.weight", ".self_attn.v_proj.weight"}},
    {".mlp.gate_up_proj.weight", {".mlp.gate_proj.weight", ".mlp.up_proj.weight"}},
};

std::string phi3_tensor_name(const std::string& parameter) {
  for (const Fused& fused : fused_names) {
    for (const char* ours : fused.ours) {
      if (ours == nullptr || !parameter.ends_with(ours)) continue;
      return parameter.substr(0, parameter.size() - std::string_view(ours).size()) + fused.theirs;
    }
  }
  return parameter;
}

std::vector<FusedPart> phi3_parts(const OrderedJson& model, const std::string& tensor) {
  const auto size = [&](const char* key, int64_t otherwise) { return model.value(key, otherwise); };
  const int64_t heads = model.at("heads"), width = size("head_dim", model.at("hidden").get<int64_t>() / heads);
  const int64_t kv = size("kv_heads", heads) * width, ffn = model.at("ffn");
  const std::array<int64_t, 3> rows[] = {{heads * width, kv, kv}, {ffn, ffn, 0}};
  for (size_t i = 0; i < std::size(fused_names); ++i) {
    if (!tensor.ends_with(fused_names[i].theirs)) continue;
    const std::string layer = tensor.substr(0, tensor.size() - std::string_view(fused_names[i].theirs).size());
    std::vector<FusedPart> parts;
    for (size_t part = 0; part < rows[i].size(); ++part) {
      if (rows[i][part] > 0) parts.push_back({layer + fused_names[i].ours[part], rows[i][part]});
    }
    return parts;
  }
  return {};
}

HuggingFaceForm phi3_form() {
  HuggingFaceForm form = llama_form({"Phi3ForCausalLM"}, phi3_hf_sizes, phi3_hf_keys, write_phi3, parse_phi3);
  form.tensor_name = phi3_tensor_name;
  form.fused = phi3_parts;
  return form;
}

}  // namespace

const ModelSpec& phi3_spec() {
  static const core::keys::Section sections[] = {
      {"model", "", core::keys::Parser::own, nullptr, llama_size_keys()},
  };
  static const ModelSpec spec{.type = "phi3",
                              .sections = sections,
                              .tied = false,
                              .presets = phi3_presets(),
                              .read = read_phi3,
                              .hugging_face = phi3_form()};
  return spec;
}

}  // namespace zrt::models

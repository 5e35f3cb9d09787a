#include "models/spec.h"

#include "models/hugging_face.h"

namespace zrt::models {
namespace {

MakeModel read_gpt2(core::keys::Values& values, const ModelSizes& sizes) {
  refuse_uneven_heads(values, sizes);
  refuse_uneven_tensor(values, sizes, {{"model.heads", sizes.heads}});
  return [sizes] {
    return make_gpt2({sizes.layers, sizes.hidden, sizes.heads, sizes.sequence, sizes.vocab,
                      static_cast<float>(sizes.dropout), sizes.tied, sizes.tensor, sizes.sequence_parallel,
                      sizes.sparse});
  };
}

// Vocabularies of 50,257 are padded to a multiple of 128; the small models read bytes: 256 values and the end of a
// document.
std::vector<Preset> gpt2_presets() {
  const auto sized = [](const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t sequence,
                        int64_t vocab) {
    return Preset{name,
                  {{"layers", layers}, {"hidden", hidden}, {"heads", heads}, {"sequence", sequence}, {"vocab", vocab}}};
  };
  return {sized("gpt2-tiny", 2, 64, 2, 32, 257),         sized("gpt2-10m", 6, 384, 6, 256, 257),
          sized("gpt2-124m", 12, 768, 12, 1024, 50304),  sized("gpt2-350m", 24, 1024, 16, 1024, 50304),
          sized("gpt2-774m", 36, 1280, 20, 1024, 50304), sized("gpt2-1.5b", 48, 1600, 25, 1024, 50304)};
}

constexpr NamePair gpt2_names[] = {{"layers", "n_layer"},
                                   {"hidden", "n_embd"},
                                   {"heads", "n_head"},
                                   {"sequence", "n_positions"},
                                   {"vocab", "vocab_size"}};
constexpr std::string_view gpt2_prefix = "transformer.";

void write_gpt2(const OrderedJson& model, OrderedJson& config) {
  for (const NamePair& key : gpt2_names) config[key.theirs] = model.at(key.ours);
  config["activation_function"] = "gelu_new";
  config["layer_norm_epsilon"] = 1e-5;
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) config[key] = model.value("dropout", 0.0);
}

void parse_gpt2(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  only(config, "activation_function", "gelu_new", name);
  only(config, "n_inner", nullptr, name);
  only(config, "scale_attn_by_inverse_layer_idx", false, name);
  only(config, "reorder_and_upcast_attn", false, name);
  only(config, "scale_attn_weights", true, name);
  only(config, "layer_norm_epsilon", 1e-5, name);
  for (const NamePair& key : gpt2_names) model[key.ours] = required_size(config, key.theirs, name);
}

std::string gpt2_tensor_name(const std::string& parameter) {
  return parameter == "lm_head.weight" ? parameter : std::string(gpt2_prefix) + parameter;
}

std::optional<std::string> gpt2_parameter_name(const OrderedJson&, const std::string& tensor) {
  std::string name = tensor;
  if (name.rfind(gpt2_prefix, 0) == 0) name.erase(0, gpt2_prefix.size());
  if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) return std::nullopt;
  return name;
}

}  // namespace

const ModelSpec& gpt2_spec() {
  static const ModelSpec spec{
      .type = "gpt2",
      .sections = {},
      .tied = true,
      .presets = gpt2_presets(),
      .read = read_gpt2,
      .hugging_face = {"GPT2LMHeadModel", write_gpt2, parse_gpt2, gpt2_tensor_name, gpt2_parameter_name}};
  return spec;
}

}  // namespace zrt::models

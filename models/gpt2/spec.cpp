#include "models/spec.h"

#include "models/experts_keys.h"
#include "models/hugging_face.h"

namespace zrt::models {
namespace {

MakeModel read_gpt2(core::keys::Values& values, const ModelSizes& sizes) {
  refuse_uneven_heads(values, sizes);
  refuse_uneven_tensor(values, sizes, {{"model.heads", sizes.heads}});
  Experts experts;
  values.check(
      [&] { experts = read_experts(values, {.ffn = 4 * sizes.hidden, .layers = sizes.layers, .shared = true}); });
  return [sizes, experts] {
    return make_gpt2({sizes.layers, sizes.hidden, sizes.heads, sizes.sequence, sizes.vocab,
                      static_cast<float>(sizes.dropout), sizes.tied, sizes.degrees, sizes.sparse, experts,
                      sizes.adapters});
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

// A file may also call a size by the name that most types have for it.
constexpr SizeKey gpt2_sizes[] = {{"layers", "n_layer", 12, false, "num_hidden_layers"},
                                  {"hidden", "n_embd", 768, false, "hidden_size"},
                                  {"heads", "n_head", 12, false, "num_attention_heads"},
                                  {"sequence", "n_positions", 1024, false, "max_position_embeddings"},
                                  {"vocab", "vocab_size", 50257}};
constexpr ConfigKey gpt2_keys[] = {
    {"activation_function", R"(["gelu_new", "gelu_pytorch_tanh"])"},  // two names of one function
    {"attn_pdrop"},
    {"embd_pdrop"},
    {"layer_norm_epsilon", "[1e-5]"},
    {"n_ctx"},
    {"n_inner"},
    {"position_embedding_type", R"(["absolute", null])"},
    {"reorder_and_upcast_attn"},  // the order of two factors
    {"resid_pdrop"},
    {"scale_attn_by_inverse_layer_idx", "[false, null]"},
    {"scale_attn_weights", "[true]"},
    {"summary_activation"},
    {"summary_first_dropout"},
    {"summary_proj_to_labels"},
    {"summary_type"},
    {"summary_use_proj"},
};
constexpr SecondName gpt2_second_names[] = {{"lm_head.weight", "wte.weight", true}};
constexpr std::string_view gpt2_prefix = "transformer.";

void write_gpt2(const OrderedJson& model, OrderedJson& config) {
  if (model.contains("experts.number") && !model.at("experts.number").is_null()) {
    refuse_config("model.experts.number",
                  model.at("experts.number").dump() +
                      " has no form at Hugging Face, whose GPT-2 has no experts; of models with "
                      "experts those of type mixtral and qwen3_moe can be exported");
  }
  config["activation_function"] = "gelu_new";
  config["layer_norm_epsilon"] = 1e-5;
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) config[key] = model.value("dropout", 0.0);
}

// Refuses another value of a key than what one of the sizes makes of it; left out and null mean that.
void only_derived(const OrderedJson& config, const char* key, int64_t value, const char* of, const std::string& name) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null() || *found == value) return;
  refuse_config(name, std::string("'") + key + "' is " + found->dump() + ", but '" + of + "' makes it " +
                          std::to_string(value) + "; zrt has no other");
}

void parse_gpt2(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  only_derived(config, "n_inner", 4 * model.at("hidden").get<int64_t>(), "n_embd", name);
  only_derived(config, "n_ctx", model.at("sequence"), "n_positions", name);  // of old files
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
  static const core::keys::Section sections[] = {
      {"model", "", core::keys::Parser::own, nullptr, experts_section_key()},
      {"model.experts", "", core::keys::Parser::own, nullptr, experts_keys()},
  };
  static const ModelSpec spec{.type = "gpt2",
                              .sections = sections,
                              .tied = true,
                              .presets = gpt2_presets(),
                              .read = read_gpt2,
                              .hugging_face = {.architectures = {"GPT2LMHeadModel", "GPT2Model"},
                                               .sizes = gpt2_sizes,
                                               .keys = gpt2_keys,
                                               .second_names = gpt2_second_names,
                                               .write = write_gpt2,
                                               .read = parse_gpt2,
                                               .inputs_first = true,
                                               .tensor_name = gpt2_tensor_name,
                                               .parameter_name = gpt2_parameter_name}};
  return spec;
}

}  // namespace zrt::models

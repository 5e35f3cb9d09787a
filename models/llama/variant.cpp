#include "models/llama/variant.h"

#include "models/hugging_face.h"

namespace zrt::models {
namespace {

using namespace core::keys;

std::vector<SizeKey> size_keys_of(const LlamaFileSizes& sizes) {
  return {{"layers", "num_hidden_layers", sizes.layers},
          {"hidden", "hidden_size", sizes.hidden},
          {"heads", "num_attention_heads", sizes.heads},
          {"kv_heads", "num_key_value_heads", sizes.kv_heads, sizes.kv_heads_may_be_null},
          {"head_dim", "head_dim", sizes.head_dim, sizes.head_dim == 0},
          {"ffn", "intermediate_size", sizes.ffn},
          {"sequence", "max_position_embeddings", sizes.sequence},
          {"vocab", "vocab_size", sizes.vocab}};
}

bool computed(const std::string& tensor) {
  return tensor.ends_with("rotary_emb.inv_freq");
}

std::string same_name(const std::string& parameter) {
  return parameter;
}

constexpr SecondName second_names_of_llama[] = {{"lm_head.weight", "model.embed_tokens.weight", true}};

MakeModel read_variant(const LlamaVariant& variant, Values& values, const ModelSizes& sizes) {
  LlamaConfig config = read_llama_sizes(values, sizes, variant.defaults, variant.layers);
  for (const LlamaFeature& feature : variant.features) {
    if (feature.read) feature.read(values, sizes, config);
  }
  return [config, type = std::string(variant.type)] {
    Model model = make_llama(config);
    model.type = type;
    return model;
  };
}

void write_variant(const LlamaVariant& variant, const OrderedJson& model, OrderedJson& config) {
  config["rms_norm_eps"] = model.at("rms_norm_eps");
  for (const LlamaFeature& feature : variant.features) {
    if (feature.write) feature.write(model, config);
  }
}

void parse_variant(const LlamaVariant& variant, const OrderedJson& config, const std::string& name,
                   OrderedJson& model) {
  model["rms_norm_eps"] = number(config, "rms_norm_eps", variant.file_epsilon, name);
  for (const LlamaFeature& feature : variant.features) {
    if (feature.parse) feature.parse(config, name, model);
  }
}

}  // namespace

LlamaType::LlamaType(const LlamaVariant& variant)
    : sections_{{"model", "", Parser::own, nullptr, llama_size_keys()}},
      sizes_(size_keys_of(variant.file_sizes)),
      keys_{{"attention_dropout", "[0, null]", ConfigKey::Otherwise::warn}, {"rms_norm_eps"}} {
  for (const LlamaFeature& feature : variant.features) {
    sections_.insert(sections_.end(), feature.sections.begin(), feature.sections.end());
    keys_.insert(keys_.end(), feature.file_keys.begin(), feature.file_keys.end());
    sizes_.insert(sizes_.end(), feature.file_sizes.begin(), feature.file_sizes.end());
  }
  spec_.type = variant.type, spec_.sections = sections_, spec_.tied = variant.tied, spec_.presets = variant.presets;
  spec_.read = [variant](Values& values, const ModelSizes& sizes) { return read_variant(variant, values, sizes); };
  HuggingFaceForm& form = spec_.hugging_face;
  form.architectures = variant.architectures, form.sizes = sizes_, form.keys = keys_;
  form.second_names = second_names_of_llama;
  form.write = [variant](const OrderedJson& model, OrderedJson& config) { write_variant(variant, model, config); };
  form.read = [variant](const OrderedJson& config, const std::string& name, OrderedJson& model) {
    parse_variant(variant, config, name, model);
  };
  form.tensor_name = variant.tensor_name == nullptr ? same_name : variant.tensor_name;
  form.fused = variant.fused, form.expert_place = variant.expert_place;
  form.parameter_name = [ours = variant.parameter_name == nullptr ? same_name : variant.parameter_name](
                            const OrderedJson&, const std::string& tensor) {
    return computed(tensor) ? std::nullopt : std::optional(ours(tensor));
  };
}

Preset llama_preset(const char* name, const LlamaPresetSizes& sizes, std::map<std::string, nlohmann::json> more) {
  more.insert({{"layers", sizes.layers},
               {"hidden", sizes.hidden},
               {"heads", sizes.heads},
               {"kv_heads", sizes.kv_heads},
               {"ffn", sizes.ffn},
               {"sequence", sizes.sequence},
               {"vocab", sizes.vocab}});
  return {name, std::move(more)};
}

}  // namespace zrt::models

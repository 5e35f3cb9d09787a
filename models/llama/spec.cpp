#include "models/spec.h"

#include "models/hugging_face.h"

namespace zrt::models {
namespace {

using namespace core::keys;

constexpr Key llama_keys[] = {
    {"kv_heads", t_int | t_null, "null", Handling::implemented},
    {"head_dim", t_int | t_null, "null", Handling::implemented},
    {"ffn", t_int | t_null, "null", Handling::implemented},
    {"rope_theta", t_real | t_null, "null", Handling::implemented},
    {"rms_norm_eps", t_real | t_null, "null", Handling::implemented},
    {"rope_scaling", t_object, "null", Handling::implemented},
};

// Named and meant as in Hugging Face's config.json.
constexpr Key rope_scaling_keys[] = {
    {"rope_type", t_text | t_null, "null", Handling::implemented},
    {"factor", t_real | t_null, "null", Handling::implemented},
    {"low_freq_factor", t_real | t_null, "null", Handling::implemented},
    {"high_freq_factor", t_real | t_null, "null", Handling::implemented},
    {"original_max_position_embeddings", t_int | t_null, "null", Handling::implemented},
};

constexpr Section llama_sections[] = {
    {"model", "", Parser::own, nullptr, llama_keys},
    {"model.rope_scaling", "", Parser::own, nullptr, rope_scaling_keys},
};

RopeScaling read_rope_scaling(Values& values) {
  const auto key = [](const char* name) { return std::string("model.rope_scaling.") + name; };
  if (values.is_null(key("rope_type"))) values.infer(key("rope_type"), "default");
  const std::string type = values.text(key("rope_type"));
  if (type != "default" && type != "llama3") {
    refuse(values.at(key("rope_type")), "is not supported; legal: \"default\" (none) and \"llama3\".");
  }
  const auto open = [&](const char* name, const nlohmann::json& fallback) {
    if (values.is_null(key(name))) {
      if (type == "llama3") values.infer(key(name), fallback);
    } else if (type == "default") {
      refuse(values.at(key(name)),
             "has no effect without " + key("rope_type") + " = \"llama3\". Set it, or remove this.");
    }
  };
  RopeScaling scaling;
  open("factor", 8);
  open("low_freq_factor", scaling.low_freq_factor);
  open("high_freq_factor", scaling.high_freq_factor);
  open("original_max_position_embeddings", scaling.original_positions);
  if (type == "default") return scaling;
  scaling.factor = values.real(key("factor"), 1, 1e6);
  scaling.low_freq_factor = values.real(key("low_freq_factor"), 1e-6, 1e6);
  scaling.high_freq_factor = values.real(key("high_freq_factor"), 1e-6, 1e6);
  scaling.original_positions = values.integer(key("original_max_position_embeddings"), 1, 1 << 24);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    refuse(values.at(key("high_freq_factor")),
           "must be larger than low_freq_factor = " + printed(scaling.low_freq_factor) + ".");
  }
  return scaling;
}

MakeModel read_llama(Values& values, const ModelSizes& sizes) {
  const bool even = values.is_null("model.head_dim");
  if (even) refuse_uneven_heads(values, sizes);
  LlamaConfig llama{.layers = sizes.layers,
                    .hidden = sizes.hidden,
                    .heads = sizes.heads,
                    .sequence = sizes.sequence,
                    .vocab = sizes.vocab,
                    .tied = sizes.tied};
  if (values.is_null("model.kv_heads")) values.infer("model.kv_heads", sizes.heads);
  if (even) values.infer("model.head_dim", sizes.hidden / sizes.heads);
  if (values.is_null("model.ffn")) values.infer("model.ffn", llama_ffn(sizes.hidden));
  if (values.is_null("model.rope_theta")) values.infer("model.rope_theta", 10000.0);
  if (values.is_null("model.rms_norm_eps")) values.infer("model.rms_norm_eps", 1e-5);
  llama.kv_heads = values.integer("model.kv_heads", 1, 1 << 20);
  llama.head_dim = values.integer("model.head_dim", 1, 1 << 16);
  llama.ffn = values.integer("model.ffn", 1, 1 << 22);
  llama.rope_theta = values.real("model.rope_theta", 2, 1e12);
  llama.rms_norm_eps = static_cast<float>(values.real("model.rms_norm_eps", 1e-12, 0.5));
  values.check([&] { llama.rope_scaling = read_rope_scaling(values); });
  values.check([&] {
    if (sizes.dropout != 0) refuse(values.at("model.dropout"), "is not supported; a Llama has no dropout. Legal: 0.");
  });
  if (llama.heads % llama.kv_heads != 0) {
    const std::string heads = std::to_string(llama.heads);
    refuse(values.at("model.kv_heads"), "does not divide model.heads = " + heads +
                                            ": every head of keys and values serves as many heads of queries. Try a "
                                            "divisor of " +
                                            heads + ", or leave it out.");
  }
  if (llama.head_dim % 2 != 0) {
    const std::string need = "elements, but rotary positions need an even number. ";
    if (!even) refuse(values.at("model.head_dim"), "makes heads of so many " + need + "Try 64 or 128.");
    refuse(values.at("model.heads"), "makes heads of " + std::to_string(llama.head_dim) + " " + need +
                                         "Try another divisor of model.hidden = " + std::to_string(llama.hidden) +
                                         ", or set model.head_dim.");
  }
  return [llama] { return make_llama(llama); };
}

// As published, save that the sequence of llama-3.2-1b is what it was first trained on, not the 131,072 it was
// stretched to, and that llama-3b is a yardstick of benchmarks: the blocks of Llama 3.2 3B with the vocabulary of
// Llama 2. The small ones read bytes: 256 values and the end of a document.
std::vector<Preset> llama_presets() {
  const auto sized = [](const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads, int64_t ffn,
                        int64_t sequence, int64_t vocab, std::map<std::string, nlohmann::json> more = {}) {
    Preset preset{name, std::move(more)};
    preset.keys.insert({{"layers", layers},
                        {"hidden", hidden},
                        {"heads", heads},
                        {"kv_heads", kv_heads},
                        {"ffn", ffn},
                        {"sequence", sequence},
                        {"vocab", vocab}});
    return preset;
  };
  return {
      sized("llama-tiny", 2, 64, 4, 2, 176, 32, 257),
      sized("llama-10m", 6, 384, 6, 2, 1024, 256, 257),
      sized("llama-160m", 12, 768, 12, 12, 3072, 2048, 32000, {{"rms_norm_eps", 1e-6}}),
      sized("smollm-135m", 30, 576, 9, 3, 1536, 2048, 49152, {{"tied", true}}),
      sized("tinyllama-1.1b", 22, 2048, 32, 4, 5632, 2048, 32000),
      sized("llama-3.2-1b", 16, 2048, 32, 8, 8192, 8192, 128256,
            {{"tied", true},
             {"rope_theta", 5e5},
             {"rope_scaling.rope_type", "llama3"},
             {"rope_scaling.factor", 32.0},
             {"rope_scaling.low_freq_factor", 1.0},
             {"rope_scaling.high_freq_factor", 4.0},
             {"rope_scaling.original_max_position_embeddings", 8192}}),
      sized("llama-3b", 28, 3072, 24, 8, 8192, 4096, 32000),
      sized("llama-2-7b", 32, 4096, 32, 32, 11008, 4096, 32000),
      sized("llama-3-8b", 32, 4096, 32, 8, 14336, 8192, 128256, {{"rope_theta", 5e5}}),
  };
}

constexpr NamePair llama_names[] = {
    {"layers", "num_hidden_layers"},         {"hidden", "hidden_size"}, {"heads", "num_attention_heads"},
    {"kv_heads", "num_key_value_heads"},     {"head_dim", "head_dim"},  {"ffn", "intermediate_size"},
    {"sequence", "max_position_embeddings"}, {"vocab", "vocab_size"}};

void write_llama(const OrderedJson& model, OrderedJson& config) {
  for (const NamePair& key : llama_names) {
    const bool given =
        key.ours != std::string_view("head_dim") || model.contains(key.ours);  // not in older checkpoints
    if (given) config[key.theirs] = model.at(key.ours);
  }
  config["rms_norm_eps"] = model.at("rms_norm_eps");
  config["hidden_act"] = "silu";
  config["rope_theta"] = model.at("rope_theta");
  if (model.value("rope_scaling.rope_type", "default") != "llama3") return;
  for (const Key& key : rope_scaling_keys) {
    config["rope_scaling"][key.name] = model.at(std::string("rope_scaling.") + key.name);
  }
}

// Where the file has the stretching of rotary positions.
OrderedJson scaling_of(const OrderedJson& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_object()) return *found;
  }
  return OrderedJson::object();
}

void parse_llama(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  only(config, "hidden_act", "silu", name);
  only(config, "attention_bias", false, name);
  only(config, "mlp_bias", false, name);
  only(config, "pretraining_tp", 1, name);
  for (const NamePair& key : llama_names) {
    const bool open = key.ours == std::string_view("kv_heads") || key.ours == std::string_view("head_dim");
    if (open && (!config.contains(key.theirs) || config.at(key.theirs).is_null())) continue;
    model[key.ours] = required_size(config, key.theirs, name);
  }
  model["rms_norm_eps"] = number(config, "rms_norm_eps", 1e-6, name);  // transformers' default, not zrt's
  const OrderedJson scaling = scaling_of(config);
  model["rope_theta"] = number(scaling.contains("rope_theta") ? scaling : config, "rope_theta", 10000, name);
  const std::string type = text(scaling, "rope_type", text(scaling, "type", "default", name), name);
  if (type == "default") return;
  if (type != "llama3") refuse_config(name, "'rope_scaling' is of type '" + type + "'; legal are default and llama3");
  model["rope_scaling"]["rope_type"] = "llama3";
  for (const Key& key : rope_scaling_keys) {
    if (scaling.contains(key.name)) model["rope_scaling"][key.name] = scaling[key.name];
  }
}

std::optional<std::string> llama_parameter_name(const std::string& tensor) {
  return tensor.ends_with("rotary_emb.inv_freq") ? std::nullopt : std::optional(tensor);
}

}  // namespace

const ModelSpec& llama_spec() {
  static const ModelSpec spec{
      .type = "llama",
      .sections = llama_sections,
      .tied = false,
      .presets = llama_presets(),
      .read = read_llama,
      .hugging_face = {"LlamaForCausalLM", write_llama, parse_llama,
                       [](const std::string& parameter) { return parameter; }, llama_parameter_name}};
  return spec;
}

}  // namespace zrt::models

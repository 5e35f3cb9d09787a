#include "models/spec.h"

#include "models/llama/hugging_face.h"
#include "models/llama/sizes.h"

namespace zrt::models {
namespace {

using namespace core::keys;

constexpr Key llama_keys[] = {
    key("rope_scaling", t_object, "null",
        "How rotary positions are stretched beyond the sequences that the network was first trained on; named as "
        "in Hugging Face's config.json."),
};

// Named and meant as in Hugging Face's config.json.
constexpr Key rope_scaling_keys[] = {
    key("rope_type", t_text | t_null, "null", one_of("default llama3"), Effect::results,
        "How positions are stretched; null or default: not at all."),
    key("factor", t_real | t_null, "null", between(1, 1e6), Effect::results,
        "How often the longest waves are stretched; null: 8."),
    key("low_freq_factor", t_real | t_null, "null", between(1e-6, 1e6), Effect::results,
        "Waves longer than the original positions divided by this are stretched in full; null: 1."),
    key("high_freq_factor", t_real | t_null, "null", between(1e-6, 1e6), Effect::results,
        "Waves shorter than the original positions divided by this are not stretched; null: 4."),
    key("original_max_position_embeddings", t_int | t_null, "null", between(1, 1 << 24), Effect::results,
        "Tokens of the sequences that the network was first trained on; null: 8192."),
};

RopeScaling read_rope_scaling(Values& values) {
  const auto key = [](const char* name) { return std::string("model.rope_scaling.") + name; };
  if (values.is_null(key("rope_type"))) values.infer(key("rope_type"), "default");
  const std::string type = values.choice(key("rope_type"));
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
  scaling.factor = values.real(key("factor"));
  scaling.low_freq_factor = values.real(key("low_freq_factor"));
  scaling.high_freq_factor = values.real(key("high_freq_factor"));
  scaling.original_positions = values.integer(key("original_max_position_embeddings"));
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    refuse(values.at(key("high_freq_factor")),
           "must be larger than low_freq_factor = " + printed(scaling.low_freq_factor) + ".");
  }
  return scaling;
}

MakeModel read_llama(Values& values, const ModelSizes& sizes) {
  LlamaConfig llama = read_llama_sizes(values, sizes, {});
  values.check([&] { llama.rope_scaling = read_rope_scaling(values); });
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

constexpr SizeKey llama_hf_sizes[] = {{"layers", "num_hidden_layers", 32},
                                      {"hidden", "hidden_size", 4096},
                                      {"heads", "num_attention_heads", 32},
                                      {"kv_heads", "num_key_value_heads", 0, true},
                                      {"head_dim", "head_dim", 0, true},
                                      {"ffn", "intermediate_size", 11008},
                                      {"sequence", "max_position_embeddings", 2048},
                                      {"vocab", "vocab_size", 32000}};
constexpr ConfigKey llama_hf_keys[] = {
    {"attention_dropout", "[0, null]", ConfigKey::Otherwise::warn},
    {"hidden_act", R"(["silu", "swish"])"},  // two names of one function
    {"is_llama_config"},
    {"layer_types"},
    {"pretraining_tp", "[1, null]"},
    {"rms_norm_eps"},
    {"rope_parameters"},
    {"rope_scaling"},
    {"rope_theta"},
};

void write_llama(const OrderedJson& model, OrderedJson& config) {
  write_llama_keys(model, config);
  if (model.value("rope_scaling.rope_type", "default") != "llama3") return;
  for (const Key& key : rope_scaling_keys) {
    config["rope_scaling"][key.name] = model.at(std::string("rope_scaling.") + key.name);
  }
}

void parse_llama(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  const Rope rope = read_llama_keys(config, name, model);
  if (rope.type == "default") return;
  if (rope.type != "llama3") refuse_rope_type(rope, "default and llama3", name);
  model["rope_scaling"] = {{"rope_type", "llama3"}};
  for (const Key& key : rope_scaling_keys) {
    if (const auto number = rope.stretch.find(key.name); number != rope.stretch.end()) {
      model["rope_scaling"][key.name] = *number;
    }
  }
}

}  // namespace

const ModelSpec& llama_spec() {
  static const Section sections[] = {
      {"model", "", Parser::own, nullptr, llama_size_keys()},
      {"model", "", Parser::own, nullptr, llama_keys},
      {"model.rope_scaling", "", Parser::own, nullptr, rope_scaling_keys},
  };
  static const ModelSpec spec{.type = "llama",
                              .sections = sections,
                              .tied = false,
                              .presets = llama_presets(),
                              .read = read_llama,
                              .hugging_face = llama_form({"LlamaForCausalLM", "LLaMAForCausalLM"}, llama_hf_sizes,
                                                         llama_hf_keys, write_llama, parse_llama)};
  return spec;
}

}  // namespace zrt::models

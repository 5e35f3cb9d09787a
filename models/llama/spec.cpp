#include "models/spec.h"

#include "models/llama/hugging_face.h"
#include "models/llama/rope_scaling.h"
#include "models/llama/sizes.h"

namespace zrt::models {
namespace {

using namespace core::keys;

MakeModel read_llama(Values& values, const ModelSizes& sizes) {
  LlamaConfig llama = read_llama_sizes(values, sizes, {});
  values.check([&] { llama.rope_scaling = read_rope_scaling(values, sizes.sequence); });
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
      sized("smollm2-135m", 30, 576, 9, 3, 1536, 8192, 49152, {{"tied", true}, {"rope_theta", 1e5}}),
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

}  // namespace

const ModelSpec& llama_spec() {
  static const Section sections[] = {
      {"model", "", Parser::own, nullptr, llama_size_keys()},
      {"model", "", Parser::own, nullptr, rope_section_key()},
      {"model.rope_scaling", "", Parser::own, nullptr, rope_scaling_keys()},
  };
  static const ModelSpec spec{.type = "llama",
                              .sections = sections,
                              .tied = false,
                              .presets = llama_presets(),
                              .read = read_llama,
                              .hugging_face = llama_form({"LlamaForCausalLM", "LLaMAForCausalLM"}, llama_hf_sizes,
                                                         llama_hf_keys, write_llama_keys, read_llama_keys)};
  return spec;
}

}  // namespace zrt::models

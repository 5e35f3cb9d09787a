// Options in config.json that zrt does not compute are refused by name, and contradictions with both values.
#include <fmt/format.h>

#include "catch.h"
#include "models/hugging_face.h"
#include "runtime/train/run_manifest.h"
#include "tests/runtime/train/hugging_face_copy.h"

namespace zrt::hugging_face_config_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
using hugging_face_copy::Copy;

namespace {

constexpr const char* folders[] = {"gpt2", "llama", "qwen2", "qwen3", "phi3", "bert", "megatron_bert"};

struct Said {
  const char* folder;  // "": every type
  const char* key;
  Json value;
};

bool contains(const std::string& text, const std::string& part) {
  INFO(text << "\nlacks: " << part);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

// Calls `check` with a copy of each folder that is meant, in which the key has the value.
void for_each(const std::vector<Said>& all, const std::function<void(const Copy&, const Said&)>& check) {
  for (const Said& said : all) {
    for (const char* folder : folders) {
      if (*said.folder != '\0' && said.folder != std::string_view(folder)) continue;
      INFO(folder << ": " << said.key << " = " << said.value.dump());
      const Copy copy(folder);
      copy.set(said.key, said.value);
      check(copy, said);
    }
  }
}

const Json llama3{{"rope_type", "llama3"},
                  {"factor", 4.0},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0},
                  {"original_max_position_embeddings", 8}};

}  // namespace

TEST_CASE("A key that changes what the model computes is refused by name where zrt does not compute with its value") {
  const std::vector<Said> refused{
      {"", "quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}},
      {"", "partial_rotary_factor", 0.5},
      {"", "rotary_pct", 0.25},
      {"", "final_logit_softcapping", 30.0},
      {"", "attn_logit_softcapping", 50.0},
      {"", "add_cross_attention", true},
      {"", "is_encoder_decoder", true},
      {"", "is_decoder", true},
      {"", "pruned_heads", {{"0", {1}}}},
      {"", "auto_map", {{"AutoModelForCausalLM", "modeling.Own"}}},
      {"", "per_layer_config", {{"0", {{"hidden_size", 12}}}}},
      {"", "embedding_multiplier", 12.0},
      {"", "residual_multiplier", 0.22},
      {"", "attention_multiplier", 0.015625},
      {"", "logits_scaling", 8.0},
      {"", "logit_scale", 0.0625},
      {"", "scale_emb", 12},
      {"", "num_local_experts", 8},
      {"", "num_experts", 128},
      {"", "attention_bias", true},
      {"", "mlp_bias", true},
      {"", "alibi", true},
      {"llama", "use_sliding_window", true},
      {"phi3", "use_sliding_window", true},
      {"", "architectures", {"OwnForSequenceClassification"}},
      {"", "architectures", "LlamaForCausalLM"},
      {"gpt2", "architectures", {"GPT2ForSequenceClassification"}},
      {"gpt2", "architectures", {"GPT2LMHeadModel", "GPT2DoubleHeadsModel"}},
      {"gpt2", "activation_function", "gelu"},
      {"gpt2", "activation_function", nullptr},
      {"gpt2", "n_inner", 95},
      {"gpt2", "n_ctx", 1024},
      {"gpt2", "num_hidden_layers", 3},
      {"gpt2", "scale_attn_by_inverse_layer_idx", true},
      {"gpt2", "scale_attn_weights", false},
      {"gpt2", "layer_norm_epsilon", 1e-6},
      {"gpt2", "rope_theta", 10000.0},
      {"llama", "architectures", {"MistralForCausalLM"}},
      {"llama", "architectures", {"LlamaForSequenceClassification"}},
      {"llama", "hidden_act", "gelu"},
      {"llama", "head_dim", 5},
      {"llama", "sliding_window", 4096},
      {"llama", "pretraining_tp", 2},
      {"llama", "qk_norm", true},
      {"llama", "use_qk_norm", true},
      {"llama", "layer_types", {"full_attention", "sliding_attention"}},
      {"llama", "layer_types", {"full_attention"}},
      {"llama", "layer_types", {"full_attention", "full_attention", "full_attention"}},
      {"llama", "layer_types", {"full_attention", nullptr}},
      {"llama", "layer_types", Json::array()},
      {"llama", "layer_types", "full_attention"},
      {"llama", "no_rope_layers", {1, 0}},
      {"llama", "original_max_position_embeddings", 4096},
      {"qwen3", "architectures", {"Qwen3ForSequenceClassification"}},
      {"qwen3", "layer_types", {"sliding_attention", "full_attention"}},
      {"qwen3", "layer_types", {"full_attention"}},
      {"qwen3", "layer_types", Json::array()},
      {"qwen3", "layer_types", "full_attention"},
      {"qwen3", "head_dim", nullptr},
      {"qwen2", "architectures", {"Qwen2ForSequenceClassification"}},
      {"qwen2", "layer_types", {"sliding_attention", "full_attention"}},
      {"qwen2", "hidden_act", "gelu"},
      {"phi3", "architectures", {"LlamaForCausalLM"}},
      {"phi3", "hidden_act", "gelu"},
      {"phi3", "sliding_window", 0},
      {"qwen2", "use_sliding_window", "yes"},
      {"qwen3", "layer_types", {"full_attention", "chunked_attention"}},
      {"bert", "architectures", {"BertForSequenceClassification"}},
      {"bert", "architectures", {"BertLMHeadModel"}},
      {"bert", "position_embedding_type", "relative_key"},
      {"bert", "hidden_act", "gelu_new"},
      {"bert", "layer_norm_eps", 1e-5},
      {"bert", "type_vocab_size", 1},
      {"bert", "intermediate_size", 95},
      {"bert", "embedding_size", 128},
      {"megatron_bert", "architectures", {"MegatronBertForNextSentencePrediction"}},
      {"megatron_bert", "intermediate_size", 97},
      {"megatron_bert", "position_embedding_type", "relative_key_query"},
  };
  for_each(refused, [](const Copy& copy, const Said& said) {
    const std::string error = copy.error();
    contains(error, said.key);
    if (!said.value.is_array() || said.key == std::string_view("architectures")) contains(error, said.value.dump());
  });
}

TEST_CASE(
    "A key that does not change what the model computes passes without a word, and an unknown one with a warning") {
  const std::vector<Said> harmless{
      {"", "quantization_config", nullptr},
      {"", "partial_rotary_factor", 1.0},
      {"", "final_logit_softcapping", nullptr},
      {"", "residual_multiplier", 1},
      {"", "attention_bias", false},
      {"", "pruned_heads", Json::object()},
      {"", "architectures", nullptr},
      {"", "bos_token_id", 5},
      {"", "torch_dtype", "float16"},
      {"", "temperature", 0.5},
      {"", "chunk_size_feed_forward", 3},
      {"", "task_specific_params", {{"text-generation", {{"do_sample", true}}}}},
      {"gpt2", "architectures", {"GPT2Model"}},
      {"gpt2", "activation_function", "gelu_pytorch_tanh"},
      {"gpt2", "n_inner", 96},
      {"gpt2", "n_ctx", 16},
      {"gpt2", "num_hidden_layers", 2},
      {"gpt2", "reorder_and_upcast_attn", true},
      {"llama", "hidden_act", "swish"},
      {"llama", "layer_types", {"full_attention", "full_attention"}},
      {"llama", "layer_types", nullptr},
      {"llama", "rope_scaling", nullptr},
      {"llama", "rope_theta", 10000},
      {"qwen3", "sliding_window", 4096},
      {"qwen3", "layer_types", nullptr},
      {"qwen2", "sliding_window", 4096},
      {"qwen2", "max_window_layers", 1},
      {"phi3", "sliding_window", 16},
      {"phi3", "original_max_position_embeddings", 8},
      {"bert", "position_embedding_type", "absolute"},
      {"bert", "gradient_checkpointing", false},
      {"bert", "pooler_type", "first_token_transform"},
  };
  for_each(harmless, [](const Copy& copy, const Said&) {
    CHECK(copy.error() == "");
    CHECK(copy.warnings() == "");
  });
  const std::vector<Said> unknown{{"", "attention_sinks", 4},
                                  {"", "norm_kind", "deep"},
                                  {"llama", "attention_dropout", 0.1},
                                  {"qwen3", "attention_dropout", 0.1}};
  for_each(unknown, [](const Copy& copy, const Said& said) {
    CHECK(copy.error() == "");
    contains(copy.warnings(), fmt::format("config.json: zrt does not know '{}' ({})", said.key, said.value.dump()));
  });
}

TEST_CASE("The config.json of published models is read without a word, into the sizes of zrt's presets") {
  const std::vector<std::pair<const char*, const char*>> published{
      {"bert-base",
       R"({"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": false,
  "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
  "intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
  "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0, "position_embedding_type": "absolute",
  "transformers_version": "4.6.0.dev0", "type_vocab_size": 2, "use_cache": true, "vocab_size": 30522})"},
      {"tinyllama-1.1b",
       R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "bos_token_id": 1, "eos_token_id": 2,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5632,
  "max_position_embeddings": 2048, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 22,
  "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.35.0", "use_cache": true,
  "vocab_size": 32000})"},
      {"llama-3.2-1b",
       R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 128000, "eos_token_id": [128001, 128008], "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
  "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 128256})"},
      {"qwen3-0.6b",
       R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
  "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28,
  "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 151936})"},
      {"mistral-7b",
       R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
  "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 32000})"},
      {"gemma2-2b",
       R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1,
  "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "initializer_range": 0.02, "intermediate_size": 9216,
  "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8, "num_hidden_layers": 26,
  "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
  "rope_theta": 10000.0, "sliding_window": 4096, "torch_dtype": "float32", "use_cache": true, "vocab_size": 256000})"},
      {"gemma3-1b",
       R"({"architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "attn_logit_softcapping": null, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": [1, 106],
  "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
  "initializer_range": 0.02, "intermediate_size": 6912, "max_position_embeddings": 32768, "model_type": "gemma3_text",
  "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1, "pad_token_id": 0,
  "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": null,
  "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6, "torch_dtype": "bfloat16",
  "use_cache": true, "vocab_size": 262144})"},
  };
  for (const auto& [preset, text] : published) {
    INFO(preset);
    Json model =
        models::from_hugging_face(Json::parse(text), "config.json", [](const std::string& said) { FAIL_CHECK(said); });
    const Reader folder("folder", std::move(model), TensorSet("folder", {}));
    Json read = runtime::model_json(runtime::hugging_face_config(folder, {}));
    Json expected = runtime::model_json(runtime::parse_config(
        fmt::format(R"({{"train_batch_size": 1, "model": {{"preset": "{}"}}}})", preset), "test", {}, 1));
    // A preset has the sequences that the model was first trained on.
    for (Json* section : {&read, &expected}) section->erase("sequence"), section->erase("preset");
    CHECK(read == expected);
  }
}

TEST_CASE("Two places that describe different rotary positions are refused with both values") {
  struct Two {
    Json theta, scaling, parameters;  // null: left out
    std::vector<const char*> words;
  };
  const Json plain{{"rope_type", "default"}, {"rope_theta", 500000.0}};
  Json llama3_theta = llama3;
  llama3_theta["rope_theta"] = 500000.0;
  const auto with = [](const char* key, double value) {
    Json other = llama3;
    other[key] = value;
    return other;
  };
  for (const Two& two : {
           // A stretch without a theta has 10000 of it, the block beside it another.
           Two{nullptr, llama3, llama3_theta, {"'rope_scaling' is ", "'rope_parameters' is ", "500000.0", "10000"}},
           Two{nullptr, llama3, with("factor", 31.5), {"'rope_scaling' is ", "'rope_parameters' is ", "31.5"}},
           Two{nullptr, llama3, with("low_freq_factor", 1.25), {"'rope_parameters' is ", "1.25"}},
           Two{nullptr, llama3, with("original_max_position_embeddings", 77), {"'rope_parameters' is ", "77"}},
           Two{nullptr, llama3, plain, {"'rope_scaling' is ", "llama3", "'rope_parameters' is ", "500000.0"}},
           Two{10000.0, nullptr, plain, {"'rope_theta' is 10000.0 and 'rope_parameters.rope_theta' is 500000.0"}},
           Two{300.0, llama3_theta, nullptr, {"'rope_theta' is 300.0 and 'rope_scaling.rope_theta' is 500000.0"}},
           Two{nullptr, {{"rope_type", "default"}, {"type", "llama3"}}, nullptr, {"'default'", "\"llama3\""}},
           Two{nullptr,
               nullptr,
               {{"full_attention", plain}, {"sliding_attention", plain}},
               {"'rope_parameters' is ", "full_attention", "500000.0", "for each type of layer"}},
           Two{nullptr,
               {{"rope_type", "default"}, {"factor", 8.0}},
               nullptr,
               {"'rope_scaling.factor' is 8.0", "default"}},
           Two{nullptr, {{"factor", 8.0}}, nullptr, {"'rope_scaling.factor' is 8.0", "default"}},
           Two{nullptr, {{"rope_type", "llama3"}, {"factor", 8.0}}, nullptr, {"has no 'low_freq_factor'"}},
           Two{nullptr,
               {{"rope_type", "default"}, {"mrope_section", {1, 1, 1}}},
               nullptr,
               {"'rope_scaling.mrope_section'"}},
           Two{nullptr,
               nullptr,
               {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}},
               {"'rope_parameters.partial_rotary_factor' is 0.5"}},
           Two{nullptr,
               {{"rope_type", "ntk"}, {"factor", 2.0}},
               nullptr,
               {"'rope_scaling' is of type 'ntk'", "legal is default or llama3 or linear or dynamic or yarn"}},
           Two{nullptr, {{"rope_type", "longrope"}, {"short_factor", {1.0}}}, nullptr, {"'longrope'"}},
           Two{nullptr, {{"type", "linear"}, {"factor", "2"}}, nullptr, {"'factor' is \"2\""}},
           Two{nullptr, {{"type", "linear"}, {"factor", 2.0}, {"beta_fast", 2.0}}, nullptr, {"beta_fast", "'linear'"}},
           Two{nullptr,
               {{"type", "dynamic"}, {"factor", 2.0}, {"original_max_position_embeddings", 8}},
               nullptr,
               {"original_max_position_embeddings", "'dynamic'"}},
           Two{nullptr, {{"type", "yarn"}, {"factor", 2.0}, {"truncate", nullptr}}, nullptr, {"'truncate' is null"}},
           Two{nullptr, "linear", nullptr, {"'rope_scaling' is \"linear\"; legal is an object"}},
           Two{nullptr, 2.0, nullptr, {"'rope_scaling' is 2.0; legal is an object"}},
       }) {
    const Copy copy("llama");
    copy.change_json("config.json", [&](Json& json) {
      json.erase("rope_parameters");
      if (!two.theta.is_null()) json["rope_theta"] = two.theta;
      if (!two.scaling.is_null()) json["rope_scaling"] = two.scaling;
      if (!two.parameters.is_null()) json["rope_parameters"] = two.parameters;
    });
    const std::string error = copy.error();
    for (const char* word : two.words) contains(error, word);
  }
}

TEST_CASE("Rotary positions that are said twice alike are read once") {
  const Json theta{{"rope_type", "default"}, {"rope_theta", 500000.0}};
  Json stretched = llama3;
  stretched["rope_theta"] = 500000.0;
  const auto positions = [](const Copy& copy) {
    CHECK(copy.error() == "");
    const Json model = open_hugging_face(copy.path).manifest().model;
    return model.value("rope_scaling", Json()).dump() + " " + model.at("rope_theta").dump();
  };
  const Copy plain("llama");
  plain.change_json("config.json", [&](Json& json) {
    json["rope_parameters"] = theta;
    json["rope_scaling"] = theta;
    json["rope_theta"] = 500000;
  });
  CHECK(positions(plain) == "null 500000.0");
  for (const bool beside : {false, true}) {
    const Copy copy("llama");
    copy.change_json("config.json", [&](Json& json) {
      json["rope_parameters"] = stretched;
      json["rope_scaling"] = beside ? llama3 : stretched;
      if (beside) json["rope_theta"] = 500000.0;  // counts for both
    });
    Json expected = llama3;
    CHECK(positions(copy) == expected.dump() + " 500000.0");
  }
}

}  // namespace zrt::hugging_face_config_test

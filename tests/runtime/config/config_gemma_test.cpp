// Gemma 2, Gemma 3 and Mistral as configurations: presets of the published sizes, what is inferred, what is refused,
// and the keys of Hugging Face's config.json.
#include <nlohmann/json.hpp>

#include "models/hugging_face.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_gemma_test {

using namespace zrt::runtime;
using Json = zrt::models::OrderedJson;

namespace {

Config preset(const std::string& name, std::vector<std::string> sets = {}) {
  sets.push_back("model.preset=" + name);
  return parse_config(R"({"train_batch_size": 1})", "c", sets, 1);
}

std::string of_type(const std::string& type, const std::string& more) {
  return R"({"train_batch_size": 1, "model": {"layers": 4, "hidden": 96, "heads": 4, "kv_heads": 2, "sequence": 24,
    "vocab": 99, "type": ")" +
         type + "\"" + more + "}";
}
nlohmann::json resolved(const std::string& type, const std::string& more = "}") {
  return nlohmann::json::parse(resolved_json(parse_config(of_type(type, more), "c", {}, 1)))["model"];
}
std::string error(const std::string& type, const std::string& more) {
  return error_of([&] { parse_config(of_type(type, more), "c", {}, 1); });
}

Json config_of(const char* type, const Json& keys = Json::object()) {
  Json config{{"model_type", type}, {"num_hidden_layers", 6}};
  config.update(keys);
  return config;
}
Json read(const char* type, const Json& keys = Json::object()) {
  return zrt::models::from_hugging_face(config_of(type, keys), "c");
}
std::string refused(const char* type, const Json& keys) {
  try {
    read(type, keys);
  } catch (const zrt::core::DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("presets of Gemma and Mistral have the parameters of the published models") {
  CHECK(preset("mistral-7b").model.make().parameters() == 7241732096);
  CHECK(preset("gemma2-2b").model.make().parameters() == 2614341888);
  CHECK(preset("gemma2-9b").model.make().parameters() == 9241705984);
  CHECK(preset("gemma3-270m").model.make().parameters() == 268098176);
  CHECK(preset("gemma3-1b").model.make().parameters() == 999885952);
  CHECK(preset("gemma3-4b").model.make().parameters() == 3880263168);
  const zrt::models::Model model = preset("gemma3-1b").model.make();
  CHECK(model.type == "gemma3_text");
  CHECK(model.blocks[1]->params().back().shape == std::vector<int64_t>{256});
  // 22 of 26 layers attend to 512 of 32,768 tokens.
  CHECK(model.attention_share > 4.0 / 26);
  CHECK(model.attention_share < 5.0 / 26);
}

TEST_CASE("what Gemma and Mistral leave out is inferred by type") {
  const nlohmann::json two = resolved("gemma2"), three = resolved("gemma3_text"), mistral = resolved("mistral");
  for (const nlohmann::json* each : {&two, &three}) {
    CHECK((*each)["head_dim"]["value"] == 256);
    CHECK((*each)["rms_norm_eps"]["value"] == 1e-6);
    CHECK((*each)["sliding_window"]["value"] == 4096);
    CHECK((*each)["query_pre_attn_scalar"]["value"] == 256);
    CHECK((*each)["tied"]["value"] == true);
  }
  CHECK(two["sliding_window_pattern"]["value"] == 2);
  CHECK(two["attn_logit_softcapping"]["value"] == 50.0);
  CHECK(two["final_logit_softcapping"]["value"] == 30.0);
  CHECK(two["rope_theta"]["value"] == 1e4);
  CHECK(three["sliding_window_pattern"]["value"] == 6);
  CHECK(three["attn_logit_softcapping"]["value"] == 0.0);
  CHECK(three["final_logit_softcapping"]["value"] == 0.0);
  CHECK(three["rope_theta"]["value"] == 1e6);
  CHECK(three["rope_local_base_freq"]["value"] == 1e4);
  CHECK(mistral["sliding_window"]["value"].is_null());
  CHECK(mistral["rms_norm_eps"]["value"] == 1e-5);
}

TEST_CASE("what does not go together in Gemma and Mistral is refused") {
  const std::string sparse = R"(}, "sparse_attention": {"mode": "fixed", "block": 4, "num_local_blocks": 2})";
  for (const char* type : {"gemma2", "mistral"}) {
    CHECK(has(error(type, R"(, "sliding_window": 8)" + sparse), "sparse_attention"));
    CHECK(has(error(type, R"(, "dropout": 0.1})"), "no dropout"));
  }
  CHECK_NOTHROW(parse_config(of_type("mistral", sparse), "c", {}, 1));
  CHECK(has(error("mistral", R"(, "sliding_window": 0})"), "model.sliding_window"));
  CHECK(has(error("mistral", R"(, "final_logit_softcapping": 30})"), "belongs to model.type = \"gemma2\""));
  CHECK(has(error("gemma2", R"(, "rope_local_base_freq": 300})"), "belongs to model.type = \"gemma3_text\""));
  CHECK(has(error("llama", R"(, "sliding_window": 8})"), "belongs to model.type"));
  CHECK(has(error("mistral", R"(, "max_window_layers": 1})"), "belongs to model.type = \"qwen2\""));
}

TEST_CASE("layers' types of config.json become a period or a first window, or are refused") {
  const auto types = [](const std::string& word) {
    Json list = Json::array();
    for (const char c : word) list.push_back(c == 's' ? "sliding_attention" : "full_attention");
    return Json{{"layer_types", list}};
  };
  CHECK(read("gemma2")["sliding_window_pattern"] == 2);
  CHECK(read("gemma3_text")["sliding_window_pattern"] == 6);
  CHECK(read("gemma3_text", {{"sliding_window_pattern", 3}})["sliding_window_pattern"] == 3);
  CHECK(read("gemma2", types("ssssss"))["sliding_window_pattern"] == 0);
  CHECK(read("gemma2", types("ffffff"))["sliding_window_pattern"] == 1);
  CHECK(read("gemma2", types("ssfssf"))["sliding_window_pattern"] == 3);
  CHECK(read("gemma3_text", types("sssssf"))["sliding_window_pattern"] == 6);
  CHECK(has(refused("gemma2", types("fsfsfs")), "layer_types"));
  CHECK(has(refused("gemma2", types("sfsf")), "'layer_types' has 4 entries"));
  CHECK(has(refused("gemma2", {{"layer_types", {"chunked_attention"}}}), "chunked_attention"));
  const auto qwen = [&](const std::string& word, const Json& more = Json::object()) {
    Json keys{{"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 4}};
    if (!word.empty()) keys.update(types(word));
    keys.update(more);
    return keys;
  };
  for (const char* type : {"qwen2", "qwen3"}) {
    CHECK(read(type, qwen(""))["max_window_layers"] == 4);
    CHECK(read(type, qwen(""))["sliding_window"] == 8);
    CHECK(read(type, qwen("ffssss"))["max_window_layers"] == 2);
    CHECK(read(type, qwen("ssssss"))["max_window_layers"] == 0);
    CHECK(read(type, qwen("ffffss"))["max_window_layers"] == 4);
    CHECK(read(type, {{"use_sliding_window", true}})["max_window_layers"] == 28);
    CHECK(read(type, qwen("", {{"max_window_layers", 0}}))["max_window_layers"] == 0);
    CHECK_FALSE(read(type, qwen("", {{"use_sliding_window", false}})).contains("sliding_window"));
    CHECK_FALSE(read(type, qwen("ffffff", {{"sliding_window", nullptr}})).contains("sliding_window"));
    CHECK(has(refused(type, qwen("sfffff")), "layer_types"));
    CHECK(has(refused(type, qwen("fffs")), "'layer_types' has 4 entries"));
    CHECK(has(refused(type, qwen("fffffs", {{"use_sliding_window", false}})), "no window that is in use"));
    CHECK(has(refused(type, qwen("", {{"max_window_layers", -1}})), "max_window_layers"));
    CHECK(has(refused(type, qwen("", {{"sliding_window", 0}})), "sliding_window"));
  }
}

TEST_CASE("config.json's keys of windows, caps and positions are read, and others refused") {
  CHECK(read("mistral")["sliding_window"] == 4096);
  CHECK(read("mistral", {{"sliding_window", nullptr}})["sliding_window"].is_null());
  CHECK(read("mistral", {{"sliding_window", 77}})["sliding_window"] == 77);
  CHECK(has(refused("mistral", {{"sliding_window", 0}}), "sliding_window"));
  CHECK(read("gemma2")["attn_logit_softcapping"] == 50.0);
  CHECK(read("gemma2", {{"attn_logit_softcapping", nullptr}})["attn_logit_softcapping"] == 0.0);
  CHECK(read("gemma2", {{"final_logit_softcapping", 7.5}})["final_logit_softcapping"] == 7.5);
  CHECK(read("gemma3_text", {{"final_logit_softcapping", 7.5}})["final_logit_softcapping"] == 7.5);
  CHECK(read("gemma2", {{"query_pre_attn_scalar", 144}})["query_pre_attn_scalar"] == 144);
  const Json apart{{"rope_parameters",
                    {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 5e5}}},
                     {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 777.0}}}}}};
  for (const Json& keys : {apart, Json{{"rope_theta", 5e5}, {"rope_local_base_freq", 777.0}}}) {
    CHECK(read("gemma3_text", keys)["rope_theta"] == 5e5);
    CHECK(read("gemma3_text", keys)["rope_local_base_freq"] == 777.0);
  }
  CHECK(read("gemma3_text")["rope_theta"] == 1e6);
  // Layers without a window have stretched positions, from 4B on; those with one do not.
  Json stretched = apart;
  stretched["rope_parameters"]["full_attention"].update({{"rope_type", "linear"}, {"factor", 8.0}});
  const Json older{{"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                   {"rope_theta", 5e5},
                   {"rope_local_base_freq", 777.0}};
  for (const Json& keys : {stretched, older}) {
    CHECK(read("gemma3_text", keys)["rope_scaling"] == Json{{"rope_type", "linear"}, {"factor", 8.0}});
    CHECK(read("gemma3_text", keys)["rope_theta"] == 5e5);
    CHECK(read("gemma3_text", keys)["rope_local_base_freq"] == 777.0);
  }
  Json both = stretched;
  both["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
  CHECK(has(refused("gemma3_text", both), "different positions"));
  stretched["rope_parameters"]["sliding_attention"].update({{"rope_type", "linear"}, {"factor", 8.0}});
  CHECK(has(refused("gemma3_text", stretched), "linear"));
  CHECK(has(refused("gemma2", {{"rope_scaling", older["rope_scaling"]}}), "linear"));
  CHECK(has(refused("gemma3_text", {{"rope_parameters", {{"full_attention", 5}}}}), "rope_parameters"));
  CHECK(has(refused("gemma2", {{"hidden_activation", "gelu"}}), "hidden_activation"));
  CHECK(has(refused("gemma2", {{"use_bidirectional_attention", true}}), "use_bidirectional_attention"));
  CHECK(has(refused("gemma2", {{"attention_bias", true}}), "attention_bias"));
  CHECK(has(refused("mistral", {{"hidden_act", "gelu"}}), "hidden_act"));
}

}  // namespace zrt::config_gemma_test

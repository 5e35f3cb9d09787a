// Keys that config.json leaves out mean to zrt what they mean to transformers' classes
// (tests/data/make_hugging_face_defaults.py).
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "core/error.h"
#include "models/hugging_face.h"
#include "runtime/config/config.h"
#include "runtime/train/resume.h"
#include "runtime/train/run_manifest.h"
#include "tests/data_folder.h"

namespace zrt::hugging_face_defaults_test {

using namespace zrt;
using runtime::checkpoint::Json;

namespace {

struct Case {
  std::string version;
  Json type, given, whole;
};

std::vector<Case> cases() {
  std::ifstream in(std::filesystem::path(zrt::test::data_folder()) / "hugging_face_defaults.json");
  const Json json = Json::parse(in);
  std::vector<Case> all;
  for (const auto& [version, list] : json.items()) {
    for (const Json& each : list) all.push_back({version, each.at("type"), each.at("given"), each.at("whole")});
  }
  return all;
}

Json with(const Case& from, const Json& keys) {
  Json config{{"model_type", from.type}};
  config.update(keys);
  return config;
}

// The whole section `model` in force, or why there is none; `said` has warnings.
std::string reading(const Json& config, std::vector<std::string>* said = nullptr) {
  try {
    Json model = models::from_hugging_face(config, "config.json", [&](const std::string& text) {
      if (said != nullptr) said->push_back(text);
    });
    const runtime::checkpoint::Reader folder("folder", std::move(model), {"folder", {}});
    return runtime::model_json(runtime::hugging_face_config(folder, {})).dump(1);
  } catch (const core::Error& error) {
    return error.what();
  }
}

bool has_no_dropout(const std::string& type) {
  constexpr const char* types[] = {"llama",  "qwen2",       "qwen3",   "phi3",     "mistral",
                                   "gemma2", "gemma3_text", "mixtral", "qwen3_moe"};
  return std::find(std::begin(types), std::end(types), type) != std::end(types);
}

}  // namespace

TEST_CASE("A key that config.json leaves out means what transformers' class makes of it, key by key") {
  size_t compared = 0;
  for (const Case& each : cases()) {
    const std::string left_out = reading(with(each, each.given));
    INFO("transformers " << each.version << ": " << each.type << " " << each.given.dump());
    for (const auto& [key, value] : each.whole.items()) {
      if (each.given.contains(key)) continue;
      Json spelled = each.given;
      spelled[key] = value;
      INFO(key << " = " << value.dump());
      CHECK(reading(with(each, spelled)) == left_out);
      ++compared;
    }
    CHECK(reading(with(each, each.whole)) == left_out);
  }
  CHECK(compared > 1000);
}

TEST_CASE("A config.json that says the type alone describes the model of transformers' class") {
  size_t empty = 0;
  for (const Case& each : cases()) {
    if (!each.given.empty()) continue;
    ++empty;
    INFO("transformers " << each.version << ": " << each.type);
    const Json model = Json::parse(reading(with(each, Json::object())));
    const bool gpt2 = each.type == "gpt2";
    CHECK(model["layers"] == each.whole[gpt2 ? "n_layer" : "num_hidden_layers"]);
    CHECK(model["hidden"] == each.whole[gpt2 ? "n_embd" : "hidden_size"]);
    CHECK(model["heads"] == each.whole[gpt2 ? "n_head" : "num_attention_heads"]);
    CHECK(model["sequence"] == each.whole[gpt2 ? "n_positions" : "max_position_embeddings"]);
    CHECK(model["vocab"] == each.whole["vocab_size"]);
    CHECK(model["tied"] == each.whole["tie_word_embeddings"]);
    if (!each.whole.contains("rms_norm_eps")) continue;
    CHECK(model["rms_norm_eps"] == each.whole["rms_norm_eps"]);
    CHECK(model["ffn"] == each.whole["intermediate_size"]);
    if (each.whole.contains("num_local_experts")) {
      CHECK(model["experts.number"] == each.whole["num_local_experts"]);
      CHECK(model["experts.top_k"] == each.whole["num_experts_per_tok"]);
      CHECK(model["experts.ffn"] == each.whole.value("moe_intermediate_size", model["ffn"]));
    }
    CHECK(model["kv_heads"] == each.whole["num_key_value_heads"]);
    // Heads share the hidden size in types whose classes have no key for it.
    const Json shared = model["hidden"].get<int64_t>() / model["heads"].get<int64_t>();
    const Json width = each.whole.value("head_dim", Json());
    CHECK(model["head_dim"] == (width.is_null() ? shared : width));
    const Json& rope = each.whole.contains("rope_parameters") ? each.whole["rope_parameters"] : each.whole;
    CHECK(model["rope_theta"] == (rope.contains("full_attention") ? rope["full_attention"] : rope)["rope_theta"]);
  }
  CHECK(empty == 19);
}

TEST_CASE("An exported config.json describes to transformers' class the model that zrt trained, with its dropout") {
  constexpr const char* dropouts[] = {"attention_dropout", "attention_probs_dropout_prob", "attn_pdrop",
                                      "embd_pdrop",        "hidden_dropout_prob",          "resid_pdrop"};
  size_t compared = 0;
  for (const Case& each : cases()) {
    if (!each.given.empty()) continue;
    for (const double dropout : {0.0, 0.25}) {
      const std::string type = each.type;
      if (dropout > 0 && has_no_dropout(type)) continue;
      INFO("transformers " << each.version << ": " << type << " with a dropout of " << dropout);
      const Json run{{"train_batch_size", 1}, {"model", {{"preset", type + "-tiny"}, {"dropout", dropout}}}};
      const Json model = runtime::model_json(runtime::parse_config(run.dump(), "test", {}, 1));
      const Json exported = models::to_hugging_face(model, core::DType::f32);
      Json theirs = with(each, each.whole);
      if (exported.contains("rope_theta")) theirs.erase("rope_parameters");     // which the class makes of it
      if (exported.contains("num_experts")) theirs.erase("num_local_experts");  // two names of one key
      theirs.erase("layer_types");  // which it makes of the number of layers
      theirs.update(exported);
      CHECK(reading(theirs) == reading(exported));
      Json read = Json::parse(reading(exported)), trained = model;
      for (Json* section : {&read, &trained}) section->erase("preset"), section->erase("dropout");
      CHECK(read == trained);
      for (const char* key : dropouts) {
        if (!theirs.contains(key)) continue;
        INFO(key);
        CHECK(theirs[key] == dropout);
        ++compared;
      }
    }
  }
  CHECK(compared == 2 * (2 * (3 + 2 + 2) + 3 + 3) + 5);
}

TEST_CASE("zrt knows every key of transformers' classes, and warns by name of others") {
  for (const Case& each : cases()) {
    std::vector<std::string> said;
    reading(with(each, each.whole), &said);
    INFO("transformers " << each.version << ": " << each.type << "\n" << (said.empty() ? "" : said.front()));
    CHECK(said.empty());
    reading(with(each, {{"use_cache", false}, {"residual_dropuot", 0.25}, {"\x1b[2J", true}}), &said);
    REQUIRE(said.size() == 1);
    CHECK(said[0].find("config.json: zrt does not know 'residual_dropuot' (0.25), '\\x1b[2J' (true)") == 0);
  }
}

TEST_CASE("The special ids of BERT that config.json never has are those of the published vocabularies, or the last") {
  Json config{{"model_type", "bert"}};
  const auto ids = [&] {
    const Json model = Json::parse(reading(config));
    return std::vector<int>{model["cls_token"], model["separator_token"], model["mask_token"]};
  };
  CHECK(ids() == std::vector<int>{101, 102, 103});
  config["vocab_size"] = 104;
  CHECK(ids() == std::vector<int>{101, 102, 103});
  config["vocab_size"] = 103;
  CHECK(ids() == std::vector<int>{100, 101, 102});
  config["sep_token_id"] = 7;
  CHECK(ids() == std::vector<int>{100, 7, 102});
  config["sep_token_id"] = nullptr;
  config["mask_token_id"] = 5;
  CHECK(ids() == std::vector<int>{100, 101, 5});
}

}  // namespace zrt::hugging_face_defaults_test

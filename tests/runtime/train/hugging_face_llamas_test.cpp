// Folders of transformers whose models have Llama's layers with one thing changed: biases, fused matrices, stretched
// positions. They give transformers' logits, every key that is read changes them, and exports hold the same bytes.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "models/hugging_face.h"
#include "runtime/train/checkpoint/exchange.h"
#include "tests/runtime/train/hugging_face_copy.h"
#include "tests/runtime/train/hugging_face_logits.h"

namespace zrt::hugging_face_llamas_test {

using namespace zrt;
using namespace zrt::runtime::checkpoint;
using namespace zrt::hugging_face_logits;
using hugging_face_copy::Copy;
namespace fs = std::filesystem;

namespace {

const fs::path goldens = fs::path(zrt::test::data_folder()) / "hugging_face";
constexpr const char* sets[] = {"qwen2", "phi3", "rope"};

Json golden_of(const char* set) {
  return Json::parse(core::read_text(goldens / (std::string("logits_") + set + ".json"), 1 << 20));
}

// The tokens of the goldens are 16; positions of the rule "dynamic" stretch with them.
Logits logits_of_folder(const fs::path& folder) {
  const Reader reader = open_hugging_face(folder);
  return logits_of(config_of(reader, {"model.sequence=16"}), reader, golden_of("rope")["tokens"]);
}

struct FileTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<float> values;
  bool operator==(const FileTensor&) const = default;
};
std::map<std::string, FileTensor> tensors_in(const fs::path& file) {
  const SafetensorsFile opened(file);
  std::map<std::string, FileTensor> all;
  for (const TensorEntry& entry : opened.header().tensors) {
    FileTensor& tensor = all[entry.name];
    tensor = {entry.dtype, entry.shape, std::vector<float>(static_cast<size_t>(entry.elements()))};
    opened.read(entry, 0, tensor.values);
  }
  return all;
}

}  // namespace

TEST_CASE(
    "Qwen2, Phi-3, SmolLM and stretched positions give transformers' logits within 1e-5, and go out as they were") {
  size_t compared = 0;
  for (const char* set : sets) {
    const Json golden = golden_of(set);
    for (const auto& [name, logits] : golden["logits"].items()) {
      INFO(name);
      CHECK(distance(logits_of_folder(goldens / name), logits.get<Logits>()) < 1e-5);
      const testing::TemporaryFolder folder;
      const Reader from = open_hugging_face(goldens / name, [](const std::string& said) { FAIL_CHECK(said); });
      const fs::path checkpoint =
          import_hugging_face(from, runtime::model_json(config_of(from)), folder.path / "checkpoints");
      export_hugging_face(Reader(checkpoint, true), folder.path / "out", {});
      CHECK(tensors_in(folder.path / "out/model.safetensors") == tensors_in(goldens / name / "model.safetensors"));
      CHECK(distance(logits_of_folder(folder.path / "out"), logits.get<Logits>()) < 1e-5);
      const Reader again = open_hugging_face(folder.path / "out", [](const std::string& said) { FAIL_CHECK(said); });
      CHECK(runtime::model_json(config_of(again)) == runtime::model_json(config_of(from)));
      ++compared;
    }
  }
  CHECK(compared == 12);
}

TEST_CASE("Every key of stretched positions, and every other that these types read, changes the logits") {
  struct Change {
    const char *folder, *block, *key;  // block "": beside the others
    Json value;
  };
  const std::vector<Change> changes{
      {"qwen2", "rope_parameters", "rope_theta", 500.0},
      {"qwen2", "", "rms_norm_eps", 0.01},
      {"qwen2", "rope_parameters", "rope_type", "linear"},
      {"phi3", "rope_parameters", "rope_theta", 500.0},
      {"phi3", "", "rms_norm_eps", 0.01},
      {"llama_linear", "rope_parameters", "factor", 2.0},
      {"llama_linear", "rope_parameters", "rope_theta", 50.0},
      {"llama_linear", "rope_parameters", "rope_type", "dynamic"},
      {"llama_dynamic", "rope_parameters", "factor", 2.0},
      {"llama_dynamic", "", "max_position_embeddings", 8},
      {"qwen3_dynamic", "rope_parameters", "factor", 2.0},
      {"llama_yarn", "rope_parameters", "factor", 2.0},
      {"llama_yarn", "rope_parameters", "original_max_position_embeddings", 4},
      {"llama_yarn", "rope_parameters", "original_max_position_embeddings", Json()},
      {"llama_yarn", "rope_parameters", "beta_fast", 2.0},
      {"llama_yarn", "rope_parameters", "beta_fast", 0},  // as if it were left out
      {"llama_yarn", "rope_parameters", "beta_slow", 0.5},
      {"llama_yarn", "rope_parameters", "truncate", true},
      {"llama_yarn", "rope_parameters", "mscale", 1.0},
      {"llama_yarn", "rope_parameters", "mscale", 0},  // with it goes the other
      {"llama_yarn", "rope_parameters", "mscale_all_dim", 1.0},
      {"llama_yarn", "rope_parameters", "attention_factor", 1.5},
      {"qwen2_yarn", "rope_parameters", "original_max_position_embeddings", 4},
      {"qwen2_yarn", "rope_parameters", "attention_factor", 1.0},
      {"qwen3_yarn", "rope_parameters", "attention_factor", 1.0},
      {"qwen3_yarn", "rope_parameters", "beta_fast", 8.0},
      {"smollm", "rope_parameters", "rope_theta", 1e4},
      {"smollm", "", "rms_norm_eps", 0.01},
  };
  for (const Change& change : changes) {
    INFO(change.folder << ": " << change.block << "." << change.key << " = " << change.value.dump());
    const Logits plain = logits_of_folder(goldens / change.folder);
    const Copy copy(change.folder);
    copy.change_json("config.json", [&](Json& json) {
      Json& at = *change.block == '\0' ? json : json[change.block];
      if (change.value.is_null()) {
        at.erase(change.key);
      } else {
        at[change.key] = change.value;
      }
      if (change.value == "linear") at["factor"] = 4.0;
    });
    CHECK(distance(logits_of_folder(copy.path), plain) > 1e-4);
  }
}

TEST_CASE("Positions mean the same by their older names: rope_scaling with its type, and rope_theta beside it") {
  for (const char* name :
       {"llama_linear", "llama_dynamic", "llama_yarn", "qwen2_yarn", "qwen3_yarn", "qwen3_dynamic"}) {
    INFO(name);
    const Copy copy(name);
    copy.change_json("config.json", [](Json& json) {
      Json block = json["rope_parameters"];
      json.erase("rope_parameters");
      json["rope_theta"] = block["rope_theta"];
      block.erase("rope_theta");
      block["type"] = block["rope_type"];
      block.erase("rope_type");
      json["rope_scaling"] = block;
    });
    CHECK(logits_of_folder(copy.path) == logits_of_folder(goldens / name));
  }
}

TEST_CASE("The sizes of a Qwen2 or Phi-3 that its weights do not have are refused by the tensor's name") {
  for (const auto& [folder, key, value, tensor] :
       {std::tuple{"qwen2", "hidden_size", 36, "model.embed_tokens.weight"},
        {"qwen2", "intermediate_size", 48, "model.layers.0.mlp.gate_proj.weight"},
        {"qwen2", "num_key_value_heads", 3, "model.layers.0.self_attn.k_proj.weight"},
        {"qwen2", "num_hidden_layers", 1, "model.layers.1."},
        {"qwen2", "vocab_size", 60, "model.embed_tokens.weight"},
        {"qwen2", "head_dim", 6, "model.layers.0.self_attn.q_proj.weight"},
        {"phi3", "hidden_size", 36, "model.layers.0.mlp.gate_up_proj.weight"},
        {"phi3", "intermediate_size", 48, "model.layers.0.mlp.gate_up_proj.weight"},
        {"phi3", "num_key_value_heads", 3, "model.layers.0.self_attn.qkv_proj.weight"},
        {"phi3", "head_dim", 6, "model.layers.0.self_attn.qkv_proj.weight"},
        {"phi3", "num_hidden_layers", 3, "model.layers.2."},
        {"phi3", "vocab_size", 60, "model.embed_tokens.weight"}}) {
    INFO(folder << ": " << key << " = " << value);
    const Copy copy(folder);
    copy.change_json("config.json",
                     [&, name = key, to = value](Json& json) { json[name] = to, json.erase("layer_types"); });
    contains(copy.error(), tensor);
  }
  const Copy copy("qwen2");
  copy.set("tie_word_embeddings", false);
  contains(copy.error(), "lm_head.weight");
}

TEST_CASE("A fused matrix with other rows, or beside one of its parts, is refused with both names") {
  const Copy rows("phi3"), beside("phi3");
  rows.change_header("model.safetensors", [](Json& json) {
    json["model.layers.1.mlp.gate_up_proj.weight"]["shape"] = {40, 48};
  });
  contains(rows.error(), "'model.layers.1.mlp.gate_up_proj.weight' is [40, 48]");
  contains(rows.error(), "40 of 'model.layers.1.mlp.gate_proj.weight'");
  beside.add_copy("model.layers.0.self_attn.o_proj.weight", "model.layers.0.self_attn.q_proj.weight");
  contains(beside.error(), "'model.layers.0.self_attn.qkv_proj.weight'");
  contains(beside.error(), "'model.layers.0.self_attn.q_proj.weight'");
}

TEST_CASE("What Phi-3 has beyond windows and plain positions is refused by name") {
  Copy window("phi3");
  window.set("sliding_window", 0);
  contains(window.error(), "'sliding_window' is 0");
  for (const char* type : {"longrope", "su", "yarn"}) {
    const Copy copy("phi3");
    copy.change_json("config.json", [&](Json& json) {
      json.erase("rope_parameters");
      json["rope_scaling"] = {{"type", type}, {"factor", 2.0}};
    });
    contains(copy.error(), fmt::format("'rope_scaling' is of type '{}'", type));
  }
  const Copy dropout("phi3");
  dropout.set("resid_pdrop", 0.1);
  CHECK(dropout.error().empty());
  contains(dropout.warnings(), "'resid_pdrop' (0.1)");
}

TEST_CASE("Published config.json of Qwen2.5, Phi-3, Phi-4 and SmolLM2 are read without a word, into zrt's presets") {
  const std::vector<std::pair<const char*, const char*>> published{
      {"qwen2.5-0.5b",
       R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
  "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
  "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2",
  "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "transformers_version": "4.40.1", "use_cache": true, "use_mrope": false, "use_sliding_window": false,
  "vocab_size": 151936})"},
      {"phi-3-mini",
       R"({"architectures": ["Phi3ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "embd_pdrop": 0.0,
  "eos_token_id": 32000, "hidden_act": "silu", "hidden_size": 3072, "initializer_range": 0.02,
  "intermediate_size": 8192, "max_position_embeddings": 4096, "model_type": "phi3", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 32, "original_max_position_embeddings": 4096,
  "pad_token_id": 32000, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0,
  "sliding_window": 2047, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.40.2",
  "use_cache": true, "attention_bias": false, "vocab_size": 32064})"},
      {"phi-4",
       R"({"architectures": ["Phi3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 100257, "embd_pdrop": 0.0, "eos_token_id": 100265, "hidden_act": "silu", "hidden_size": 5120,
  "initializer_range": 0.02, "intermediate_size": 17920, "max_position_embeddings": 16384, "model_type": "phi3",
  "num_attention_heads": 40, "num_hidden_layers": 40, "num_key_value_heads": 10,
  "original_max_position_embeddings": 16384, "pad_token_id": 100349, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
  "rope_scaling": null, "rope_theta": 250000, "sliding_window": null, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "transformers_version": "4.47.0", "use_cache": true, "vocab_size": 100352})"},
      {"smollm2-135m",
       R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 0,
  "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664,
  "intermediate_size": 1536, "is_llama_config": true, "max_position_embeddings": 8192, "model_type": "llama",
  "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3, "pretraining_tp": 1,
  "rms_norm_eps": 1e-05, "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.40.1", "use_cache": true,
  "vocab_size": 49152})"},
  };
  for (const auto& [preset, text] : published) {
    INFO(preset);
    Json model =
        models::from_hugging_face(Json::parse(text), "config.json", [](const std::string& said) { FAIL_CHECK(said); });
    const Reader folder("folder", std::move(model), TensorSet("folder", {}));
    Json read = runtime::model_json(config_of(folder));
    Json expected = runtime::model_json(runtime::parse_config(
        fmt::format(R"({{"train_batch_size": 1, "model": {{"preset": "{}"}}}})", preset), "test", {}, 1));
    for (Json* section : {&read, &expected}) section->erase("preset");
    CHECK(read == expected);
  }
}

TEST_CASE("Dynamic positions of longer sequences stretch in transformers, too, when they are exported") {
  const testing::TemporaryFolder folder;
  const Reader from = open_hugging_face(goldens / "llama_dynamic");
  const Json longer = runtime::model_json(config_of(from, {"model.sequence=16"}));
  export_hugging_face(Reader(import_hugging_face(from, longer, folder.path / "checkpoints"), true), folder.path / "out",
                      {});
  const Json config = Json::parse(core::read_text(folder.path / "out/config.json", 1 << 20));
  CHECK(config["max_position_embeddings"] == 6);
  CHECK(config["rope_scaling"] == Json{{"rope_type", "dynamic"}, {"factor", 4.0}});
  CHECK(distance(logits_of_folder(folder.path / "out"), golden_of("rope")["logits"]["llama_dynamic"].get<Logits>()) <
        1e-5);
  // A run may be longer than the folder says by this rule alone.
  const auto fits = [](const char* name) {
    const Reader reader = open_hugging_face(goldens / name);
    Json json{{"train_batch_size", 1}, {"model", reader.manifest().model}};
    json["model"]["sequence"] = 24;
    const runtime::Config run = runtime::parse_config(json.dump(), "test", {}, 1);
    const models::Model model = run.model.make();
    const std::vector<runtime::Layout> layouts = runtime::make_layouts(run, model);
    try {
      runtime::require_fits(reader, run, layouts, {});
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(fits("llama_dynamic").empty());
  contains(fits("llama_linear"), "model.sequence is 24");
}

TEST_CASE("A published model with YaRN keeps its rule through an export, and one without a factor is refused") {
  const Json yarn{{"factor", 4.0}, {"original_max_position_embeddings", 32768}, {"type", "yarn"}};
  Json config{{"model_type", "qwen2"}, {"rope_theta", 1e6}, {"rope_scaling", yarn}};
  const Json model = models::from_hugging_face(config, "c");
  CHECK(model["rope_scaling"]["rope_type"] == "yarn");
  CHECK(model["rope_scaling"]["original_max_position_embeddings"] == 32768);
  const Reader folder("folder", model, TensorSet("folder", {}));
  const Json out = models::to_hugging_face(runtime::model_json(config_of(folder)), core::DType::f32);
  CHECK(models::from_hugging_face(out, "c")["rope_scaling"] == model["rope_scaling"]);
  config["rope_scaling"].erase("factor");
  try {
    models::from_hugging_face(config, "c");
    FAIL_CHECK("no factor");
  } catch (const core::Error& error) {
    contains(error.what(), "'rope_scaling' is of type 'yarn' and has no 'factor'");
  }
}

TEST_CASE("Runs start from a folder with biases, fused matrices or windows with the same bits on any mesh") {
  for (const char* name : {"qwen2", "phi3", "qwen2_yarn", "qwen2_window", "gemma3_linear"}) {
    const Reader folder = open_hugging_face(goldens / name);
    std::string expected;
    for (const auto& [ranks, stage, tensor] : {std::tuple{1, 0, 1}, {2, 3, 1}, {2, 0, 2}, {4, 3, 2}, {4, 1, 1}}) {
      INFO(name << " on " << ranks << " ranks, stage " << stage << ", tensor " << tensor);
      const Json json{{"train_batch_size", 4},
                      {"zero_optimization", {{"stage", stage}}},
                      {"parallel", {{"tensor", tensor}}},
                      {"model", folder.manifest().model}};
      const runtime::Config config = runtime::parse_config(json.dump(), "test", {}, ranks);
      const models::Model model = config.model.make();
      runtime::Layout layout = runtime::make_layouts(config, model).front();
      layout.device = zrt::test::test_device();
      runtime::require_tensors(folder, layout, false);
      runtime::Session session(runtime::compile(layout, {"load", "step", "export"}), runtime::session_options(config),
                               {nullptr, [&](const std::string& param, int64_t begin, std::span<float> out) {
                                  folder.read(param, begin, out);
                                }});
      session.run("load", {});
      if (expected.empty()) expected = session.state_xxh3();
      CHECK(session.state_xxh3() == expected);
    }
  }
}

}  // namespace zrt::hugging_face_llamas_test

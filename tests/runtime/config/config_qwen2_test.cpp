// Qwen2, Phi-3 and SmolLM2 as configurations: presets of the published sizes, what is inferred, what is refused; and
// the keys of stretched positions that these types share.
#include <nlohmann/json.hpp>

#include "models/hugging_face.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_qwen2_test {

using namespace zrt::runtime;

namespace {

Config preset(const std::string& name, std::vector<std::string> sets = {}) {
  sets.push_back("model.preset=" + name);
  return parse_config(R"({"train_batch_size": 1})", "c", sets, 1);
}

nlohmann::json in_force(const Config& config) {
  return nlohmann::json::parse(resolved_json(config))["model"];
}

std::vector<std::string> names_of(const zrt::models::Block& block) {
  std::vector<std::string> names;
  for (const zrt::models::Param& param : block.params()) names.push_back(param.name);
  return names;
}

}  // namespace

TEST_CASE("presets of Qwen2.5, Phi-3, Phi-4 and SmolLM2 have the parameters of the published models") {
  CHECK(preset("qwen2.5-0.5b").model.make().parameters() == 494032768);
  CHECK(preset("qwen2.5-1.5b").model.make().parameters() == 1543714304);
  CHECK(preset("qwen2.5-3b").model.make().parameters() == 3085938688);
  CHECK(preset("qwen2.5-7b").model.make().parameters() == 7615616512);
  CHECK(preset("phi-3-mini").model.make().parameters() == 3821079552);
  CHECK(preset("phi-4").model.make().parameters() == 14659507200);
  CHECK(preset("smollm2-135m").model.make().parameters() == 134515008);
}

TEST_CASE("a layer of Qwen2 has biases of queries, keys and values, one of Phi-3 and of Llama none") {
  const auto biases = [](const std::string& name) {
    const zrt::models::Model model = preset(name).model.make();
    std::vector<std::string> found;
    for (const std::string& param : names_of(*model.blocks[1])) {
      if (param.ends_with(".bias")) found.push_back(param.substr(std::string("model.layers.0.").size()));
    }
    return found;
  };
  CHECK(biases("qwen2-tiny") ==
        std::vector<std::string>{"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"});
  CHECK(biases("phi3-tiny").empty());
  CHECK(biases("llama-tiny").empty());
  CHECK(preset("qwen2-tiny").model.make().type == "qwen2");
  CHECK(preset("phi3-tiny").model.make().type == "phi3");
  // Ranks that share a layer have the biases of their heads.
  const zrt::models::Model shared =
      parse_config(R"({"train_batch_size": 1, "parallel": {"tensor": 2}, "model": {"preset": "qwen2-tiny"}})", "c", {},
                   2)
          .model.make();
  for (const zrt::models::Param& param : shared.blocks[1]->params()) {
    if (param.name.ends_with("q_proj.bias")) CHECK(param.shape == std::vector<int64_t>{32});
    if (param.name.ends_with("k_proj.bias")) CHECK(param.shape == std::vector<int64_t>{16});
  }
}

TEST_CASE("what Qwen2 and Phi-3 leave out is what the published models have") {
  const auto of = [](const std::string& type) {
    return in_force(
        parse_config(R"({"train_batch_size": 1, "model": {"layers": 2, "hidden": 96, "heads": 6, "sequence": 8,
        "vocab": 99, "type": ")" +
                         type + R"("}})",
                     "c", {}, 1));
  };
  const nlohmann::json qwen2 = of("qwen2"), phi3 = of("phi3");
  CHECK(qwen2["rope_theta"]["value"] == 1e6);
  CHECK(qwen2["rms_norm_eps"]["value"] == 1e-6);
  CHECK(qwen2["head_dim"]["value"] == 16);
  CHECK(phi3["rope_theta"]["value"] == 1e4);
  CHECK(phi3["rms_norm_eps"]["value"] == 1e-5);
  const auto refused = [](const std::string& type, const std::string& more) {
    return error_of([&] { preset(type + "-tiny", {more}); });
  };
  CHECK(has(refused("qwen2", "model.dropout=0.1"), "no dropout"));
  CHECK(has(refused("qwen2", "model.max_window_layers=1"), "no effect without model.sliding_window"));
  CHECK(has(refused("phi3", "model.rope_scaling.rope_type=yarn"), R"(belongs to model.type = "llama" or )"));
}

TEST_CASE("layers of Qwen2 and Qwen3 have windows from max_window_layers on, all of Phi-3's one, and by default none") {
  const auto share = [](const std::string& name, std::vector<std::string> sets) {
    sets.push_back("model.sequence=256");
    return preset(name, std::move(sets)).model.make().attention_share;
  };
  const double windowed = zrt::models::AttentionPattern::of_window(8, 256).share(256);
  CHECK(windowed < 0.3);
  for (const char* name : {"qwen2-tiny", "qwen3-tiny", "phi3-tiny"}) {
    CHECK(share(name, {}) == 1);
    CHECK(share(name, {"model.sliding_window=8"}) == windowed);
  }
  for (const char* name : {"qwen2-tiny", "qwen3-tiny"}) {
    CHECK(share(name, {"model.sliding_window=8", "model.max_window_layers=1"}) == (1 + windowed) / 2);
    CHECK(share(name, {"model.sliding_window=8", "model.max_window_layers=2"}) == 1);
  }
  CHECK(in_force(preset("qwen2-tiny", {"model.sliding_window=8"}))["max_window_layers"]["value"] == 0);
  CHECK(in_force(preset("qwen2-tiny"))["max_window_layers"]["value"].is_null());
}

TEST_CASE("each rule of stretched positions infers the keys that it reads, and no others") {
  const auto scaling = [](const char* rule) {
    return in_force(preset("qwen2-tiny", {std::string("model.rope_scaling.rope_type=") + rule}))["rope_scaling"];
  };
  const nlohmann::json yarn = scaling("yarn"), linear = scaling("linear"), dynamic = scaling("dynamic");
  CHECK(yarn["factor"]["value"] == 8);
  CHECK(yarn["original_max_position_embeddings"]["value"] == 32);  // the model's sequence
  CHECK(yarn["beta_fast"]["value"] == 32);
  CHECK(yarn["beta_slow"]["value"] == 1);
  CHECK(yarn["truncate"]["value"] == true);
  for (const char* open : {"attention_factor", "mscale", "mscale_all_dim", "low_freq_factor"}) {
    CHECK(yarn[open]["value"].is_null());
  }
  CHECK(linear["factor"]["value"] == 8);
  CHECK(linear["original_max_position_embeddings"]["value"].is_null());
  CHECK(dynamic["original_max_position_embeddings"]["value"] == 32);
  CHECK(dynamic["beta_fast"]["value"].is_null());
  CHECK(scaling("default")["factor"]["value"].is_null());
  // An evaluation with shorter samples is of the same model.
  const Config whole = parse_config(
      R"({"train_batch_size": 1, "model": {"preset": "qwen2-tiny", "rope_scaling": {"rope_type": "yarn"}}})", "c", {},
      1);
  // The file may name the preset, or the command line.
  const Config named = preset("qwen2-tiny", {"model.rope_scaling.rope_type=yarn", "model.preset=qwen2-tiny"});
  for (const Config& config : {whole, named}) {
    const nlohmann::json shorter = in_force(reconfigured(config, {"model.sequence=16"}, 1));
    CHECK(shorter["sequence"]["value"] == 16);
    CHECK(shorter["rope_scaling"]["original_max_position_embeddings"]["value"] == 32);
  }
}

}  // namespace zrt::config_qwen2_test

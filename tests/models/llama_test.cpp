// Facts of Llama that the comparison with the fp64 reference does not cover: counts, stretched positions, refusals.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "core/error.h"
#include "models/llama/rotary_frequencies.h"
#include "models/model.h"
#include "tests/data_folder.h"

namespace zrt::llama_test {

using namespace zrt::models;
using Catch::Matchers::Contains;

TEST_CASE("parameters and FLOPs of Llama 2 7B, Llama 3 8B and Llama 3.2 1B are the known ones") {
  const LlamaConfig two{.layers = 32, .hidden = 4096, .heads = 32, .sequence = 4096, .vocab = 32000};
  CHECK(llama_ffn(4096) == 11008);
  CHECK(make_llama(two).parameters() == 6738415616);
  const LlamaConfig three{
      .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .ffn = 14336, .sequence = 8192, .vocab = 128256};
  CHECK(make_llama(three).parameters() == 8030261248);
  LlamaConfig small{
      .layers = 16, .hidden = 2048, .heads = 32, .kv_heads = 8, .ffn = 8192, .sequence = 8192, .vocab = 128256};
  small.tied = true;
  const Model model = make_llama(small);
  CHECK(model.parameters() == 1235814400);
  CHECK(model.flops_per_token() == 6.0 * 1235814400 + 6.0 * 16 * 2048 * 8192);
  CHECK(model.blocks.size() == 18);
  double flops = 0, products = 0;
  for (const auto& block : model.blocks) {
    flops += block->forward_flops({1, 8192});
    for (const GemmSpec& spec : block->products({1, 8192})) {
      products += 2 * static_cast<double>(spec.M) * static_cast<double>(spec.N) * static_cast<double>(spec.K);
    }
  }
  CHECK(3 * flops / 8192 == Approx(model.flops_per_token()).epsilon(1e-3));
  CHECK(products / 8192 == Approx(6.0 * 1235814400).epsilon(1e-3));
  const auto refs = model.canonical_params();
  const auto name = [&](size_t i) { return model.blocks[refs[i].block]->params()[refs[i].index].name; };
  CHECK(refs.size() == 2 + 16 * 9);
  CHECK(name(0) == "model.embed_tokens.weight");
  CHECK(name(1) == "model.layers.0.input_layernorm.weight");
  CHECK(name(9) == "model.layers.0.mlp.down_proj.weight");
  CHECK(name(145) == "model.norm.weight");
}

TEST_CASE("heads of any width: the parameters of Qwen3 0.6B's matrices, and FLOPs of what its heads attend with") {
  LlamaConfig config{.layers = 28, .hidden = 1024, .heads = 16, .kv_heads = 8, .head_dim = 128, .ffn = 3072};
  config.sequence = 4096, config.vocab = 151936, config.tied = true;
  const Model model = make_llama(config);
  constexpr int64_t norms_of_heads = 28 * 2 * 128;  // which Llama has not
  CHECK(model.parameters() == 596049920 - norms_of_heads);
  CHECK(model.flops_per_token() == 6.0 * static_cast<double>(model.parameters()) + 6.0 * 28 * 2048 * 4096);
  double flops = 0;
  for (const auto& block : model.blocks) flops += block->forward_flops({1, 4096});
  CHECK(3 * flops / 4096 == Approx(model.flops_per_token()).epsilon(1e-3));
}

TEST_CASE("rotary frequencies and their scale are transformers', by every rule that stretches them") {
  std::ifstream file(zrt::test::data_folder() + "/llama_goldens.json");
  const nlohmann::json first = nlohmann::json::parse(file).at("rope_scaling"), &scaling = first.at("scaling");
  const RopeScaling llama3{.rule = RopeScaling::Rule::llama3,
                           .factor = scaling.at("factor"),
                           .low_freq_factor = scaling.at("low_freq_factor"),
                           .high_freq_factor = scaling.at("high_freq_factor"),
                           .original_positions = scaling.at("original_max_position_embeddings")};
  const auto compare = [](const std::vector<double>& got, const nlohmann::json& expected) {
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i].get<double>()).epsilon(1e-5));
  };
  compare(rotary_frequencies(first.at("width"), first.at("theta"), llama3, 131072), first.at("frequencies"));
  CHECK(rotary_frequencies(4, 100, {}, 8) == std::vector<double>{1, std::pow(100.0, -0.5)});
  CHECK(rotary_scale(llama3) == 1);

  std::ifstream more(zrt::test::data_folder() + "/rope_goldens.json");
  const nlohmann::json cases = nlohmann::json::parse(more);
  for (const nlohmann::json& each : cases) {
    INFO(each.at("given").dump());
    const nlohmann::json& given = each.at("given");
    const std::string type = given.at("rope_type");
    RopeScaling rule{.rule = type == "yarn"     ? RopeScaling::Rule::yarn
                             : type == "linear" ? RopeScaling::Rule::linear
                                                : RopeScaling::Rule::dynamic,
                     .factor = given.at("factor")};
    rule.original_positions = given.value("original_max_position_embeddings", each.at("positions").get<int64_t>());
    rule.beta_fast = given.value("beta_fast", rule.beta_fast),
    rule.beta_slow = given.value("beta_slow", rule.beta_slow);
    rule.truncate = given.value("truncate", rule.truncate);
    rule.mscale = given.value("mscale", 0.0), rule.mscale_all_dim = given.value("mscale_all_dim", 0.0);
    if (given.contains("attention_factor")) rule.attention_factor = given.at("attention_factor").get<double>();
    compare(rotary_frequencies(each.at("width"), given.at("rope_theta"), rule, each.at("sequence")),
            each.at("frequencies"));
    CHECK(rotary_scale(rule) == Approx(each.at("scale").get<double>()).epsilon(1e-6));
  }
  CHECK(cases.size() == 14);
}

TEST_CASE("contradictory sizes of a Llama are refused by the name of their key") {
  const LlamaConfig good{.layers = 1, .hidden = 24, .heads = 4, .kv_heads = 2, .sequence = 8, .vocab = 9};
  const auto message = [](const LlamaConfig& config) {
    try {
      make_llama(config);
    } catch (const zrt::core::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message(good).empty());
  LlamaConfig config = good;
  config.kv_heads = 3;
  CHECK_THAT(message(config), Contains("model.kv_heads is 3") && Contains("model.heads = 4"));
  config = good, config.heads = 8;
  CHECK_THAT(message(config), Contains("model.heads is 8") && Contains("even"));
  config = good, config.head_dim = 7;
  CHECK_THAT(message(config), Contains("model.head_dim 7") && Contains("even"));
  config = good, config.head_dim = -2;
  CHECK_THAT(message(config), Contains("model.head_dim is -2"));
  config = good, config.heads = 5;
  CHECK_THAT(message(config), Contains("model.heads is 5") && Contains("model.hidden = 24"));
  config = good, config.ffn = -1;
  CHECK_THAT(message(config), Contains("model.ffn is -1"));
  config = good, config.rope_theta = 1;
  CHECK_THAT(message(config), Contains("model.rope_theta is 1"));
  config = good, config.rope_scaling.factor = 4;
  CHECK_THAT(message(config), Contains("a factor of 4 and no rule"));
  config.rope_scaling.rule = zrt::models::RopeScaling::Rule::linear;
  CHECK(message(config).empty());
  config = good, config.rms_norm_eps = 0;
  CHECK_THAT(message(config), Contains("model.rms_norm_eps is 0"));
}

}  // namespace zrt::llama_test

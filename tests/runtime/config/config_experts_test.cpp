// Experts as a configuration: presets of the published sizes, what is inferred, what is refused.
#include <nlohmann/json.hpp>

#include "models/hugging_face.h"
#include "models/sharing.h"
#include "runtime/train/run_manifest.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_experts_test {

using namespace zrt::runtime;

namespace {

Config preset(const std::string& name, std::vector<std::string> sets = {}) {
  sets.push_back("model.preset=" + name);
  return parse_config(R"({"train_batch_size": 1})", "c", sets, 1);
}

std::string sizes(const std::string& type, const std::string& experts) {
  return R"({"train_batch_size": 1, "model": {"type": ")" + type +
         R"(", "layers": 2, "hidden": 96, "heads": 4, "sequence": 8, "vocab": 99, "ffn": 64, "experts": )" + experts +
         "}}";
}
std::string error(const std::string& type, const std::string& experts) {
  return error_of([&] { parse_config(sizes(type, experts), "c", {}, 1); });
}
nlohmann::json resolved(const std::string& type, const std::string& experts) {
  return nlohmann::json::parse(resolved_json(parse_config(sizes(type, experts), "c", {}, 1)))["model"]["experts"];
}

}  // namespace

TEST_CASE("presets with experts have the parameters of the published models, and those that a token is computed with") {
  const zrt::models::Model qwen = preset("qwen3-30b-a3b").model.make();
  CHECK(qwen.parameters() == 30532122624);
  CHECK(qwen.active_parameters() == 3353032704);
  CHECK(qwen.flops_per_token() == Approx(6.0 * 3353032704 + 6.0 * 48 * 4096 * 32768));
  const zrt::models::Model mixtral = preset("mixtral-8x7b").model.make();
  CHECK(mixtral.parameters() == 46702792704);
  CHECK(mixtral.active_parameters() == 12879925248);
  CHECK(preset("qwen3-235b-a22b").model.make().parameters() == 235093634560);
}

TEST_CASE("experts that are left open are those of the type") {
  const nlohmann::json mixtral = resolved("mixtral", "{}"), qwen = resolved("qwen3_moe", R"({"ffn": 16})");
  CHECK(mixtral["number"]["value"] == 8);
  CHECK(mixtral["ffn"]["value"] == 64);
  CHECK(mixtral["top_k"]["value"] == 2);
  CHECK(mixtral["norm_topk_prob"]["value"] == true);
  CHECK(qwen["number"]["value"] == 128);
  CHECK(qwen["top_k"]["value"] == 8);
  CHECK(qwen["ffn"]["value"] == 16);
  CHECK(resolved("mixtral", R"({"top_k": 1})")["norm_topk_prob"]["value"] == false);
}

TEST_CASE("one prototype and the likeliest expert are the same model") {
  const auto model = [](const char* experts) {
    return parse_config(sizes("mixtral", experts), "c", {}, 1).model.make();
  };
  CHECK(model(R"({"prototypes": 1, "top_k": 1})").parameters() == model(R"({"top_k": 1})").parameters());
}

TEST_CASE("experts that do not go together are refused by the key") {
  CHECK(has(error("mixtral", R"({"number": 4, "top_k": 5})"), "model.experts.top_k = 5"));
  CHECK(has(error("mixtral", R"({"number": 6, "prototypes": 4})"), "model.experts.prototypes = 4"));
  CHECK(has(error("mixtral", R"({"number": 6, "prototypes": 3, "top_k": 2})"), "each prototype picks one expert"));
  CHECK(has(error("mixtral", R"({"prototypes": 2, "norm_topk_prob": true})"), "model.experts.norm_topk_prob"));
  CHECK(has(error("mixtral", R"({"capacity_factor": 0})"), "model.experts.capacity_factor = 0"));
  CHECK(has(error("mixtral", R"({"aux_loss": -1})"), "model.experts.aux_loss = -1"));
  CHECK(has(error("mixtral", R"({"every": 3})"), "no layer would have experts"));
  CHECK(has(error("llama", R"({"number": 4})"), "model.experts"));
  const auto eight = [](const char* type) {
    return error_of([&] { parse_config(sizes(type, "{}"), "c", {"bf16.enabled=true", "fp8.enabled=true"}, 1); });
  };
  CHECK(has(eight("mixtral"), "does not go with experts yet"));
}

TEST_CASE("a GPT-2 has experts where their number is said, and no key of them else") {
  const std::string plain = R"({"train_batch_size": 1, "model": {"preset": "gpt2-tiny"}})";
  const auto with = [&](std::vector<std::string> sets) { return parse_config(plain, "c", sets, 1).model.make(); };
  const int64_t dense = with({}).parameters(), C = 64;
  CHECK(with({"model.experts.number=4"}).parameters() == dense + 2 * (4 * C + 3 * 8 * C * C - 5 * C));
  CHECK(has(error_of([&] { with({"model.experts.top_k=2"}); }), "has no effect without model.experts.number"));
  const Config config = parse_config(plain, "c", {"model.experts.number=4"}, 1);
  CHECK_THROWS_AS(zrt::models::to_hugging_face(model_json(config), zrt::core::DType::f32), zrt::core::DataError);
}

// A token is computed with all shared experts, and with one of four others.
TEST_CASE("shared experts are one MLP more of a layer, of which all parameters are those of every token") {
  const auto with = [](const std::vector<std::string>& sets) {
    return parse_config(R"({"train_batch_size": 1, "model": {"preset": "gpt2-tiny"}})", "c", sets, 1).model.make();
  };
  const int64_t C = 64, F = 48, layers = 2;
  const zrt::models::Model plain = with({"model.experts.number=4", "model.experts.ffn=48"});
  const zrt::models::Model shared = with({"model.experts.number=4", "model.experts.ffn=48", "model.experts.shared=3"});
  const int64_t added = layers * 3 * 2 * C * F;
  CHECK(shared.parameters() == plain.parameters() + added);
  CHECK(shared.active_parameters() == plain.active_parameters() + added);
  CHECK(shared.flops_per_token() == Approx(plain.flops_per_token() + 6.0 * static_cast<double>(added)));
  const zrt::models::Shape shape{.B = 1, .T = 8};
  const auto flops = [&](const zrt::models::Model& model) { return model.blocks[1]->forward_flops(shape); };
  CHECK(flops(shared) == Approx(flops(plain) + 2.0 * 8 * static_cast<double>(3 * 2 * C * F)));
  CHECK(shared.blocks[1]->params().back().name == "h.0.mlp.shared_experts.c_proj.weight");
  CHECK(shared.blocks[1]->params().back().shape == std::vector<int64_t>{C, 3 * F});
  CHECK(
      with({"model.experts.number=4", "model.experts.every=2", "model.experts.shared=1"}).blocks[1]->params().size() ==
      with({"model.experts.number=4", "model.experts.every=2"}).blocks[1]->params().size());
}

TEST_CASE("shared experts are refused where there are no others, in files that have none, and below zero") {
  for (const char* type : {"mixtral", "qwen3_moe"}) {
    const std::string refusal = error(type, R"({"shared": 1})");
    CHECK(has(refusal, "model.experts.shared = 1"));
    CHECK(has(refusal, "have no place for experts of all tokens"));
    CHECK(resolved(type, R"({"shared": 0})")["shared"]["value"] == 0);
  }
  const auto gpt2 = [](std::vector<std::string> sets) { return error_of([&] { preset("gpt2-tiny", sets); }); };
  CHECK(has(gpt2({"model.experts.shared=1"}), "has no effect without model.experts.number"));
  CHECK(has(gpt2({"model.experts.shared=-1"}), "model.experts.shared = -1"));
  CHECK(has(gpt2({"model.experts.number=4", "model.experts.shared=-1"}), "model.experts.shared = -1"));
}

TEST_CASE("layers with experts share no parameters with layers that have none") {
  const auto model = [](const char* every) {
    return parse_config(R"({"train_batch_size": 1, "model": {"preset": "gpt2-tiny", "layers": 4}})", "c",
                        {"model.experts.number=4", every}, 1)
        .model.make();
  };
  CHECK_THROWS_AS(zrt::models::share(model("model.experts.every=2"), {.groups = {4}}), zrt::core::ConfigError);
  CHECK(zrt::models::share(model("model.experts.every=1"), {.groups = {4}}).parameters() <
        model("model.experts.every=1").parameters() / 2);
}

}  // namespace zrt::config_experts_test

// Qwen3 as a configuration: presets of the published sizes, what is inferred, what is refused.
#include <nlohmann/json.hpp>

#include "models/hugging_face.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_qwen3_test {

using namespace zrt::runtime;

namespace {

Config preset(const std::string& name, std::vector<std::string> sets = {}) {
  sets.push_back("model.preset=" + name);
  return parse_config(R"({"train_batch_size": 1})", "c", sets, 1);
}

std::string error(const std::string& model) {
  return error_of([&] { parse_config(R"({"train_batch_size": 1, "model": )" + model + "}", "c", {}, 1); });
}

}  // namespace

TEST_CASE("presets of Qwen3 have the parameters of the published models") {
  CHECK(preset("qwen3-0.6b").model.make().parameters() == 596049920);
  CHECK(preset("qwen3-1.7b").model.make().parameters() == 1720574976);
  CHECK(preset("qwen3-4b").model.make().parameters() == 4022468096);
  CHECK(preset("qwen3-8b").model.make().parameters() == 8190735360);
  const zrt::models::Model model = preset("qwen3-0.6b").model.make();
  CHECK(model.type == "qwen3");
  const auto& layer = model.blocks[1]->params();
  CHECK(layer.back().name == "model.layers.0.self_attn.k_norm.weight");
  CHECK(layer.back().shape == std::vector<int64_t>{128});
  CHECK(model.flops_per_token() == 6.0 * 596049920 + 6.0 * 28 * 2048 * 32768);
}

TEST_CASE("a Qwen3 of other sizes has heads of 128 elements, slow rotary positions and no dropout") {
  const std::string sizes = R"("layers": 2, "hidden": 96, "heads": 5, "sequence": 8, "vocab": 99)";
  const auto with = [&](const std::string& more) { return R"({"type": "qwen3", )" + more + sizes + "}"; };
  const Config config = parse_config(R"({"train_batch_size": 1, "model": )" + with("") + "}", "c", {}, 1);
  const nlohmann::json all = nlohmann::json::parse(resolved_json(config))["model"];
  CHECK(all["head_dim"]["value"] == 128);
  CHECK(all["rope_theta"]["value"] == 1e6);
  CHECK(all["rms_norm_eps"]["value"] == 1e-6);
  CHECK(all["kv_heads"]["value"] == 5);
  CHECK(has(error(with(R"("dropout": 0.1, )")), "no dropout"));
  CHECK(has(error(with(R"("head_dim": 9, )")), "model.head_dim = 9"));
  CHECK(has(error(with(R"("kv_heads": 2, )")), "does not divide model.heads = 5"));
}

}  // namespace zrt::config_qwen3_test

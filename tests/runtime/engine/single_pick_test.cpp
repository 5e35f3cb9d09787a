// One expert for each token, as configurations say it: by prototypes or by the likeliest, with and without gates that
// add up to 1.
#include <nlohmann/json.hpp>

#include "runtime/config/config.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/train/fused_copy.h"
#include "tests/runtime/train/hugging_face_logits.h"

namespace zrt::single_pick_test {

using namespace zrt;
using namespace zrt::testing;
using nlohmann::json;

namespace {

models::Model model_of(const char* type, json experts) {
  experts.update({{"number", 4}, {"ffn", 40}});
  json model{{"type", type}, {"layers", 2}, {"hidden", 48}, {"heads", 4}, {"sequence", 24}, {"vocab", 61}};
  if (std::string(type) != "gpt2") model["ffn"] = 80;
  model["experts"] = experts;
  return runtime::parse_config(json{{"train_batch_size", 1}, {"model", model}}.dump(), "c", {}, 1).model.make();
}

Setting plain_sgd(int steps) {
  Setting s;
  s.ranks = 2, s.accumulation = 2, s.steps = steps, s.rate = 0.1;
  s.optimizer = make_optimizer(optimizer::SgdParams{});
  return s;
}

// The routers' weights, of all layers.
std::vector<float> routers(const Outcome& outcome) {
  std::vector<float> all;
  for (const auto& [name, values] : outcome.tensors) {
    if (name.ends_with("mlp.gate.weight")) all.insert(all.end(), values.begin(), values.end());
  }
  REQUIRE(all.size() == 2u * 4 * 48);
  return all;
}

constexpr const char* types[] = {"mixtral", "qwen3_moe", "gpt2"};

}  // namespace

TEST_CASE("One prototype and the likeliest expert have the same bits, step after step") {
  for (const char* type : types) {
    for (const core::DType compute : {core::DType::f32, core::DType::bf16}) {
      INFO(type << ", " << core::dtype_name(compute));
      const json losses{{"aux_loss", 0.1}, {"z_loss", 0.01}, {"capacity_factor", 1.0}, {"norm_topk_prob", false}};
      const auto outcome = [&](json experts) {
        experts.update(losses);
        Setting s;
        s.ranks = 2, s.stage = 3, s.compute = compute;
        return run(model_of(type, experts), s);
      };
      const Outcome prototype = outcome({{"prototypes", 1}}), likeliest = outcome({{"top_k", 1}});
      CHECK(prototype.state == likeliest.state);
      CHECK(prototype.losses == likeliest.losses);
      CHECK(outcome({{"prototypes", 2}}).state != likeliest.state);
      CHECK(outcome({{"top_k", 2}}).state != likeliest.state);
    }
  }
}

TEST_CASE("A gate that is always 1 moves no router, unless the router has a loss of its own") {
  for (const char* type : types) {
    INFO(type);
    const auto moved = [&](json experts) {
      experts.update({{"top_k", 1}});
      const models::Model model = model_of(type, experts);
      const Outcome start = run(model, plain_sgd(0)), end = run(model, plain_sgd(3));
      CHECK(start.weights != end.weights);
      return routers(start) != routers(end);
    };
    CHECK_FALSE(moved({{"norm_topk_prob", true}}));
    CHECK(moved({{"norm_topk_prob", false}}));
    CHECK(moved({{"norm_topk_prob", true}, {"aux_loss", 0.1}}));
    CHECK(moved({{"norm_topk_prob", true}, {"z_loss", 0.1}}));
  }
}

TEST_CASE("With gates that add up to 1 a token's only expert counts whole, however sure the router is of it") {
  using namespace zrt::hugging_face_logits;
  const hugging_face_copy::Copy plain("qwen3_moe"), surer("qwen3_moe");
  // Twice the logits: the same expert is the likeliest, with a larger probability.
  hugging_face_copy::RawTensors tensors = hugging_face_copy::read_tensors(surer.path / "model.safetensors");
  for (auto& [name, tensor] : tensors) {
    if (!name.ends_with(".mlp.gate.weight")) continue;
    REQUIRE(tensor.dtype == "F32");
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    for (float& value : values) value *= 2;
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  }
  hugging_face_copy::write_tensors(surer.path / "model.safetensors", tensors);
  const auto logits = [](const hugging_face_copy::Copy& copy, const std::string& normalised) {
    const Reader reader = runtime::checkpoint::open_hugging_face(copy.path);
    const runtime::Settings sets{"model.experts.top_k=1", "model.experts.norm_topk_prob=" + normalised};
    return logits_of(config_of(reader, sets), reader, {3, 1, 4, 1, 5, 9, 2, 6});
  };
  CHECK(logits(surer, "true") == logits(plain, "true"));
  CHECK(distance(logits(surer, "false"), logits(plain, "false")) > 1e-4);
}

}  // namespace zrt::single_pick_test

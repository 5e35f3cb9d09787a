// A block computed part by part, with an exchange possible at every port, has the bits of the block in one call. On a
// GPU products add the residual stream while they write where it stays in the call, and round it otherwise.
#include "catch.h"
#include "models/model.h"
#include "tests/device.h"
#include "tests/models/block_runner.h"
#include "tests/models/golden.h"

namespace zrt::parts_test {

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;

namespace {

constexpr int64_t T = 13, hidden = 32;

struct Subject {
  std::string name;
  Model model;
  Tensors weights;
  Batch batch;
};

template <class Config>
Subject subject(const char* name, const Config& config) {
  return {name, make_model(config), recipe_weights(config), recipe_batch(config, 3, T, 0)};
}

Subject subject(int which) {
  const LlamaConfig llama{
      .layers = 2, .hidden = hidden, .heads = 4, .kv_heads = 2, .ffn = 40, .sequence = 16, .vocab = 97};
  if (which < 2) {
    const float dropout = which == 0 ? 0 : 0.3f;
    return subject(
        which == 0 ? "GPT-2" : "GPT-2 with dropout",
        Gpt2Config{.layers = 2, .hidden = hidden, .heads = 2, .sequence = 16, .vocab = 97, .dropout = dropout});
  }
  if (which == 2) return subject("Llama", llama);
  if (which == 8) {
    LlamaConfig gemma = llama;
    gemma.gemma = gemma.head_norms = true, gemma.windows = {5, 2}, gemma.window_rope_theta = 100;
    gemma.query_scalar = 10, gemma.attention_cap = 2, gemma.logit_cap = 3;
    return subject("Gemma", gemma);
  }
  if (which > 3) {
    const bool dropped = which % 2 != 0;
    BertConfig bert{.layers = 2, .hidden = hidden, .heads = 2, .sequence = 16, .vocab = 97};
    bert.dropout = dropped ? 0.3f : 0, bert.pre_norm = which > 5;
    bert.masking.cls = 94, bert.masking.separator = 95, bert.masking.mask = 96;
    bert.masking.sentence_order = dropped;
    return subject(dropped ? "BERT with dropout" : "BERT", bert);
  }
  LlamaConfig qwen = llama;
  qwen.head_norms = true;
  return subject("Qwen3", qwen);
}

}  // namespace

TEST_CASE("a block cut at any of its ports has the bits of the block in one call") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  const Subject it = subject(GENERATE(0, 1, 2, 3, 4, 5, 6, 7, 8));
  INFO(it.name << ' ' << zrt::core::dtype_name(type));
  BlockRunner whole(it.model, {.B = 3, .T = T, .type = type, .grad_type = type});
  BlockRunner parts(it.model, {.B = 3, .T = T, .type = type, .grad_type = type});
  whole.load(it.weights), parts.load(it.weights);
  const double loss = whole.train(it.batch);
  const Tensors grads = whole.grads();
  const double evaluated = whole.evaluate(it.batch);
  const uint32_t ports = static_cast<uint32_t>(it.model.blocks[1]->anatomy().ports.size());
  REQUIRE(ports == 4);
  for (uint32_t seams = 1; seams < 1u << ports; ++seams) {
    // Forwards and backwards, with what follows a norm made in a call of its own or not.
    for (const uint32_t given : {0u, 1u, 4u, 5u}) {
      for (const bool again : {false, true}) {
        RunOptions options;
        options.forward_seams = seams, options.backward_seams = (1u << ports) - seams, options.ports = given;
        options.recompute = again;
        INFO("seams " << seams << " given " << given << " again " << again);
        parts.forget_grads();
        CHECK(parts.train(it.batch, options) == loss);
        CHECK(parts.grads() == grads);
      }
    }
  }
  CHECK(parts.evaluate(it.batch) == evaluated);
}

TEST_CASE("the parts of a layer that backward cannot do without end with its last wide product") {
  for (const int which : {0, 2, 3, 4, 6}) {
    const Subject it = subject(which);
    const Block& layer = *it.model.blocks[1];
    const Shape shape{.B = 3, .T = T};
    const Parts rerun = parts_to_rerun(layer, shape), light = layer.anatomy().light;
    CHECK(layer.anatomy().parts[rerun.end - 1] == "hidden");
    CHECK(light.end == rerun.end);
    CHECK(layer.anatomy().parts[light.first] == "norm_2");
    double flops = 0;
    for (uint8_t part = 0; part < layer.anatomy().parts.size(); ++part) {
      flops += layer.forward_flops(shape, {part, static_cast<uint8_t>(part + 1)});
    }
    CHECK(flops == Approx(layer.forward_flops(shape)));
    // A block of one part that saves nothing has nothing to run again.
    CHECK(parts_to_rerun(*it.model.blocks[0], shape).count() == 0);
  }
}

}  // namespace zrt::parts_test

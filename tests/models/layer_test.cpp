// A layer is right whatever parts it is made of, not only as the models put them together: each MLP with norms in front
// or behind, dropout, turned heads. Gradients are compared with the change of the loss along them.
#include "models/common/layer.h"

#include <cmath>

#include "catch.h"
#include "models/common/embedding.h"
#include "models/common/gated_mlp.h"
#include "models/common/gelu_mlp.h"
#include "models/common/head.h"
#include "tests/models/block_runner.h"
#include "tests/models/golden.h"

namespace zrt::layer_test {

using namespace zrt::models;
using namespace zrt::test;

namespace {

constexpr int64_t hidden = 32, wide = 48, T = 12;

struct Made {
  bool gated, rms, post_norm, turned;
  float dropout;
};

std::unique_ptr<Block> make_layer(const Made& made, const BlockSizes& sizes, const Norm& norm, int64_t number) {
  LayerForm form{
      .sizes = sizes, .name = "l" + std::to_string(number), .norm = norm, .params = {}, .post_norm = made.post_norm};
  if (made.dropout > 0) form.dropout_number = number;
  const std::string prefix = form.name + ".";
  const auto add = [&](const char* name, int64_t in, int64_t out) {
    return form.add_product(prefix + name, {.in = in, .out = out}, 0.2f);
  };
  form.attention = Attention(sizes, 4, 2, 8, {});
  form.first_norm_weight = form.add_norm(prefix + "norm_1");
  const Product queries = add("queries", hidden, 32), keys = add("keys", hidden, 16),
                values = add("values", hidden, 16);
  form.attention.strips = side_by_side({queries, keys, values});
  form.attention.output = add("output", 32, hidden);
  form.second_norm_weight = form.add_norm(prefix + "norm_2");
  const Product in = add("in", hidden, wide), out = add("out", wide, hidden);
  if (made.gated) {
    form.mlp = std::make_unique<GatedMlp>(in, add("up", hidden, wide), out);
  } else {
    form.mlp = std::make_unique<GeluMlp>(in, out);
  }
  if (made.turned) {
    form.attention.turning = HeadTurning{.frequencies = {1, 0.5, 0.2, 0.1}};
    form.attention.turning->norms = {form.params.size(), form.params.size() + 1, 1e-5f};
    for (const char* name : {"norm_q.weight", "norm_k.weight"}) form.params.push_back({prefix + name, {8}, Init::ones});
  }
  return std::make_unique<Layer>(std::move(form));
}

Model make_model(const Made& made) {
  Model model;
  model.type = "test", model.hidden = hidden, model.sequence = T, model.vocab = 61, model.layers = 2;
  const BlockSizes sizes{hidden, T, model.vocab, made.dropout, {}};
  const Norm norm{made.rms ? NormKind::rms : NormKind::layer, hidden, 1e-5f};
  model.blocks.push_back(make_embedding(sizes, {"wte", "wte.weight", "wpe.weight", embedding_dropout_site}));
  for (int64_t layer = 0; layer < 2; ++layer) model.blocks.push_back(make_layer(made, sizes, norm, layer));
  model.blocks.push_back(make_head(sizes, {"norm", norm, "head.weight"}));
  return model;
}

std::vector<TensorShape> tensors_of(const Model& model) {
  std::vector<TensorShape> all;
  for (const auto& block : model.blocks) {
    for (const Param& param : block->params()) all.push_back({param.name, param.shape});
  }
  return all;
}

}  // namespace

TEST_CASE("a layer of any parts has the gradient of its loss, and its bits where it is cut at ports") {
  const Made made{GENERATE(false, true), GENERATE(false, true), GENERATE(false, true), GENERATE(false, true),
                  GENERATE(0.0f, 0.2f)};
  CAPTURE(made.gated, made.rms, made.post_norm, made.turned, made.dropout);
  const Model model = make_model(made);
  const Tensors weights = recipe_weights(tensors_of(model));
  const Batch batch = recipe_batch(model.vocab, 2, T, 0);
  BlockRunner runner(model, {.B = 2, .T = T});
  runner.load(weights);
  runner.train(batch);
  const Tensors grads = runner.grads();
  for (const uint32_t seams : {5u, 10u, 15u}) {
    RunOptions options;
    options.forward_seams = options.backward_seams = seams, options.recompute = seams == 10;
    runner.forget_grads();
    runner.train(batch, options);
    CHECK(runner.grads() == grads);
  }
  for (const auto& [name, grad] : grads) {
    double square = 0;
    for (const double x : grad) square += x * x;
    const double length = std::sqrt(square), step = 4e-3;
    REQUIRE(length > 0);
    double losses[2];
    for (const int side : {0, 1}) {
      Tensors moved = weights;
      for (size_t i = 0; i < grad.size(); ++i) moved[name][i] += (side == 0 ? -step : step) * grad[i] / length;
      runner.load(moved);
      runner.forget_grads();
      losses[side] = runner.train(batch) / static_cast<double>(2 * T);
    }
    INFO(name);
    CHECK((losses[1] - losses[0]) / (2 * step) == Approx(length).epsilon(0.02).margin(1e-4));
  }
}

}  // namespace zrt::layer_test

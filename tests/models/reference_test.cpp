// The oracle is checked itself: against PyTorch in fp64 and against finite differences.
#include <cmath>

#include "catch.h"
#include "tests/models/golden.h"

namespace zrt::reference_test {

using namespace zrt::test;
using zrt::models::Gpt2Config;
using zrt::models::LlamaConfig;

namespace {

// A deterministic stand-in for dropout with p = 0.25.
double quarter_dropped(DropoutSite site, int64_t index) {
  const int64_t mixed = (index * 7 + site.kind * 3 + site.layer * 5) % 11;
  return mixed % 4 == 0 ? 0 : 1 / 0.75;
}

// `run` is the reference as a function of the weights alone.
template <class Run>
void check_finite_differences(const Tensors& weights, const Run& run) {
  const Tensors grads = run(weights).grads;
  for (const auto& [name, grad] : grads) {
    INFO(name);
    // A step along the gradient itself: the slope is its norm, and no element can hide.
    double square = 0;
    for (double g : grad) square += g * g;
    const double norm = std::sqrt(square), step = 1e-4;
    const auto loss_at = [&, &name = name, &grad = grad](double distance_along) {
      Tensors moved = weights;
      for (size_t i = 0; i < grad.size(); ++i) moved.at(name)[i] += distance_along * grad[i] / norm;
      return run(moved).loss_mean;
    };
    CHECK((loss_at(step) - loss_at(-step)) / (2 * step) == Approx(norm).epsilon(1e-6));
    // Single elements, spread over the tensor, are checked, too.
    for (size_t i = 0; i < grad.size(); i += 1 + grad.size() / 5) {
      Tensors up = weights, down = weights;
      up.at(name)[i] += step;
      down.at(name)[i] -= step;
      const double slope = (run(up).loss_mean - run(down).loss_mean) / (2 * step);
      CHECK(slope == Approx(grad[i]).epsilon(1e-5).margin(1e-7));
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("the fp64 reference equals PyTorch in logits, loss and every gradient", "", Gpt2Config,
                   LlamaConfig) {
  const bool tied = GENERATE(true, false);
  const auto golden = golden_gradients<TestType>(tied);
  const ReferenceResult result = reference(golden.config, recipe_weights(golden.config), golden.batch);
  CHECK(std::abs(result.loss_mean - golden.loss) < 1e-12 * golden.loss);
  CHECK(distance(result.logits, golden.logits) < 1e-12);
  REQUIRE(result.grads.size() == golden.grads.size());
  for (const auto& [name, grad] : golden.grads) {
    INFO(name);
    CHECK(distance(result.grads.at(name), grad) < 1e-10);
  }
}

TEST_CASE("every gradient of the fp64 GPT-2 equals finite differences, with and without dropout") {
  Gpt2Config config;
  config.layers = 2, config.hidden = 12, config.heads = 3, config.sequence = 7, config.vocab = 19;
  config.tied = GENERATE(true, false);
  const DropoutMask mask = GENERATE(true, false) ? DropoutMask(quarter_dropped) : DropoutMask{};
  const Batch batch = recipe_batch(config, 2, 6, 0);
  check_finite_differences(recipe_weights(config),
                           [&](const Tensors& weights) { return reference(config, weights, batch, 0, mask); });
}

TEST_CASE("every gradient of the fp64 Llama equals finite differences") {
  LlamaConfig config;
  config.layers = 2, config.hidden = 16, config.heads = 4, config.kv_heads = GENERATE(1, 2, 4), config.ffn = 11;
  config.sequence = 7, config.vocab = 19, config.rope_theta = 100;
  config.tied = GENERATE(true, false);
  const Batch batch = recipe_batch(config, 2, 6, 0);
  check_finite_differences(recipe_weights(config),
                           [&](const Tensors& weights) { return reference(config, weights, batch); });
}

TEMPLATE_TEST_CASE("the fp64 trainer follows the curve of PyTorch's AdamW with DeepSpeed's clipping", "", Gpt2Config,
                   LlamaConfig) {
  const bool tied = GENERATE(true, false);
  const auto golden = golden_curve<TestType>(tied, "fp64");
  Tensors weights = recipe_weights(golden.config);
  const std::vector<ReferenceStep> steps = reference_train(golden.config, golden.run, weights);
  REQUIRE(steps.size() == golden.steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    INFO("step " << i);
    CHECK(steps[i].loss == Approx(golden.steps[i].loss).epsilon(1e-10));
    CHECK(steps[i].grad_norm == Approx(golden.steps[i].grad_norm).epsilon(1e-9));
  }
  for (const auto& [name, norm] : golden.final_weight_norm) {
    INFO(name);
    CHECK(global_norm({{name, without_key_bias(name, weights.at(name))}}) == Approx(norm).epsilon(1e-9));
  }
}

TEST_CASE("microbatches over accumulation and ranks train like one batch in the fp64 trainer") {
  Gpt2Config config;
  config.layers = 1, config.hidden = 8, config.heads = 2, config.sequence = 5, config.vocab = 11;
  ReferenceRun whole;
  whole.steps = 3;
  whole.batch = [&](int64_t step, int64_t, int64_t) { return recipe_batch(config, 6, 5, step); };
  ReferenceRun parts = whole;
  parts.dp = 3, parts.accumulation = 2;
  parts.batch = [&](int64_t step, int64_t rank, int64_t micro) {
    const Batch all = recipe_batch(config, 6, 5, step);
    const auto row = (rank * 2 + micro) * 5;
    return Batch{1,
                 5,
                 {all.tokens.begin() + row, all.tokens.begin() + row + 5},
                 {all.targets.begin() + row, all.targets.begin() + row + 5}};
  };
  Tensors a = recipe_weights(config), b = a;
  const auto steps_a = reference_train(config, whole, a), steps_b = reference_train(config, parts, b);
  for (size_t i = 0; i < steps_a.size(); ++i) CHECK(steps_a[i].loss == Approx(steps_b[i].loss).epsilon(1e-12));
  for (const auto& [name, weight] : a) CHECK(distance(weight, b.at(name)) < 1e-9);
}

TEST_CASE("clipping divides by (norm + 1e-6) / limit, and only when that exceeds one") {
  Tensors grads{{"a", {3}}, {"b", {4}}};
  CHECK(clip_gradients(grads, 2.5) == 5);
  CHECK(grads.at("a")[0] == Approx(3 * 2.5 / (5 + 1e-6)).epsilon(1e-14));
  Tensors small{{"a", {3}}, {"b", {4}}};
  CHECK(clip_gradients(small, 5.1) == 5);
  CHECK(small.at("b")[0] == 4);
  CHECK(clip_gradients(small, 0) == 5);
  CHECK(small.at("b")[0] == 4);
}

}  // namespace zrt::reference_test

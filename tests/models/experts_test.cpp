// Layers of experts against the fp64 reference: loss, every gradient, evaluation and decoding.
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "core/parallel.h"
#include "tests/models/block_runner.h"
#include "tests/models/golden.h"
#include "tests/models/rounded_path.h"

namespace zrt::experts_test {

using namespace zrt::test;
using zrt::core::DType;
using zrt::models::Experts;
using zrt::models::Gpt2Config;
using zrt::models::LlamaConfig;

namespace {

// Roundings of routing are few beside those of products; the bounds are those of layers without experts
// (gradient_test.cpp), of a tensor and half of it for the gradient as a whole.
constexpr double tolerance = 2.4e-6;

template <class Config>
Config with(const Experts& experts, bool tied) {
  Config config;
  config.layers = 2, config.hidden = 32, config.heads = 2, config.sequence = 16, config.vocab = 97;
  config.tied = tied, config.experts = experts;
  if constexpr (std::is_same_v<Config, LlamaConfig>) config.kv_heads = 1, config.ffn = 40, config.head_norms = tied;
  return config;
}

// Routers of the recipe, made larger, so that few choices lie close to each other.
template <class Config>
Tensors weights_of(const Config& config, double router = 6) {
  Tensors weights = recipe_weights(config);
  for (auto& [name, values] : weights) {
    if (!name.ends_with("mlp.gate.weight")) continue;
    for (double& value : values) value = static_cast<float>(router * value);
  }
  return weights;
}

struct Case {
  const char* name;
  Experts experts;
};
const Case cases[] = {
    {"the two likeliest of four", {.number = 4, .ffn = 24, .top_k = 2, .normalised = true}},
    {"the likeliest of four, and losses of the router", {.number = 4, .ffn = 24, .aux_loss = 0.7, .z_loss = 0.3}},
    {"gates of all, and half of the room",
     {.number = 4, .ffn = 24, .top_k = 2, .capacity_factor = 0.5, .aux_loss = 0.7, .z_loss = 0.3}},
    {"three of five, an odd width, in every second layer",
     {.number = 5, .ffn = 19, .top_k = 3, .capacity_factor = 0.8, .normalised = true, .aux_loss = 0.5, .every = 2}},
    {"three prototypes of two", {.number = 6, .ffn = 24, .prototypes = 3, .aux_loss = 0.7, .z_loss = 0.3}},
    {"prototypes without room", {.number = 6, .ffn = 24, .prototypes = 2, .capacity_factor = 0.01}},
    {"all of three", {.number = 3, .ffn = 24, .top_k = 3, .normalised = true, .z_loss = 0.3}},
    {"shared experts beside the likeliest of four", {.number = 4, .ffn = 24, .aux_loss = 0.7, .shared = 1}},
    {"two shared experts of an odd width, in every second layer, and half of the room",
     {.number = 4, .ffn = 19, .top_k = 2, .capacity_factor = 0.5, .normalised = true, .shared = 2, .every = 2}},
    {"more experts than tokens", {.number = 50, .ffn = 8, .top_k = 2, .normalised = true, .aux_loss = 0.1}},
};

// Returns how far a tensor's gradient may be off, given `rounding` for one whose values are rounded on their way alone.
// A gate is an exponential: it is as much off, of its size, as its logit is in all. That error is `rounding` of the
// logit.
double bound_of(const std::string& name, double rounding, double largest_logit) {
  return name.find(".mlp.") != std::string::npos ? rounding * (1 + largest_logit) : rounding;
}

// The gradient as a whole has half of `rounding`; queries and keys are differences of nearly equal numbers.
void check_gradients(const Tensors& grads, const Tensors& expected, double rounding, double largest_logit,
                     double of_attention = 1) {
  REQUIRE(grads.size() == expected.size());
  std::vector<double> all, all_expected;
  for (const auto& [name, grad] : expected) {
    INFO(name);
    if (std::all_of(grad.begin(), grad.end(), [](double x) { return x == 0; })) {
      CHECK(grads.at(name) == grad);  // nobody chose the expert
      continue;
    }
    const bool scores = name.find("q_") != std::string::npos || name.find("k_") != std::string::npos;
    CHECK(distance(grads.at(name), grad) < bound_of(name, rounding, largest_logit) * (scores ? of_attention : 1));
    all.insert(all.end(), grads.at(name).begin(), grads.at(name).end());
    all_expected.insert(all_expected.end(), grad.begin(), grad.end());
  }
  CHECK(distance(all, all_expected) < rounding / 2);
}

// A batch whose choices do not rest on a rounding.
template <class Config>
Batch decided_batch(const Config& config, const Tensors& weights, int64_t B, int64_t T, double margin = 1e-3) {
  for (int64_t index = 0; index < 2000; ++index) {
    const Batch batch = recipe_batch(config, B, T, index);
    if (reference(config, weights, batch).router_margin > margin) return batch;
  }
  FAIL("no batch has a margin of " << margin);
  return {};
}

}  // namespace

TEMPLATE_TEST_CASE("layers of experts have the loss and the gradients of the fp64 reference", "", Gpt2Config,
                   LlamaConfig) {
  for (const Case& c : cases) {
    for (const bool tied : {true, false}) {
      INFO(c.name << ", tied " << tied);
      const auto config = with<TestType>(c.experts, tied);
      const Tensors weights = weights_of(config);
      const Batch batch = decided_batch(config, weights, 2, 13);
      const zrt::models::Model model = make_model(config);
      BlockRunner runner(model, {.B = 2, .T = 13});
      runner.load(weights);
      const double loss = runner.train(batch);
      const ReferenceResult expected = reference(config, weights, batch);
      CHECK(std::abs(loss - expected.loss_sum) < tolerance / 2 * expected.loss_sum);
      check_gradients(runner.grads(), expected.grads, tolerance, expected.router_logit);
      const zrt::models::RouterTally& tally = runner.router();
      const int64_t layers = 2 / config.experts.every;
      CHECK(tally.layers == static_cast<uint64_t>(layers));
      CHECK(tally.choices == static_cast<uint64_t>(layers * 2 * 13 * config.experts.choices()));
      CHECK(tally.dropped == static_cast<uint64_t>(expected.dropped));
      CHECK((tally.dropped > 0) == (config.experts.capacity_factor > 0));
      CHECK(tally.balance == Approx(expected.router_balance).epsilon(1e-5));
      CHECK(tally.z == Approx(expected.router_z).epsilon(1e-5));
      CHECK(tally.peak == Approx(expected.router_peak).epsilon(1e-12));
      // A second microbatch adds to the first.
      runner.train(batch);
      REQUIRE(expected.loads.size() == static_cast<size_t>(layers));
      size_t layer = 0;
      for (size_t block = 0; block < model.blocks.size(); ++block) {
        CHECK((model.blocks[block]->experts() > 0) == model.blocks[block]->routing_part().has_value());
        if (model.blocks[block]->experts() == 0) continue;
        std::vector<zrt::models::ExpertLoad> loads = expected.loads.at(layer++);
        for (zrt::models::ExpertLoad& load : loads) load.picked *= 2, load.dropped *= 2;
        CHECK(std::vector<zrt::models::ExpertLoad>(runner.loads(block).begin(), runner.loads(block).end()) == loads);
      }
      CHECK(layer == expected.loads.size());
      Tensors twice = expected.grads;
      for (auto& [name, grad] : twice)
        for (double& value : grad) value *= 2;
      check_gradients(runner.grads(), twice, tolerance, expected.router_logit);
    }
  }
}

TEMPLATE_TEST_CASE("evaluation and decoding drop nothing and give the logits of the fp64 reference", "", Gpt2Config,
                   LlamaConfig) {
  for (Case c : cases) {
    INFO(c.name);
    const auto scarce = with<TestType>(c.experts, true);
    c.experts.capacity_factor = 0;
    const auto config = with<TestType>(c.experts, true);
    const Tensors weights = weights_of(config);
    const Batch batch = decided_batch(config, weights, 2, 16);
    const zrt::models::Model model = make_model(scarce);
    BlockRunner runner(model, {.B = 2, .T = 16});
    runner.load(weights);
    const ReferenceResult expected = reference(config, weights, batch);
    CHECK(std::abs(runner.evaluate(batch) - expected.loss_sum) < 1e-6 * expected.loss_sum);
    CHECK(distance(runner.decode(batch), expected.logits) < 1e-6);
  }
}

TEMPLATE_TEST_CASE("experts give the same bits again, recomputed, and with two threads", "", Gpt2Config, LlamaConfig) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Case& c : cases) {
      INFO(c.name << " " << zrt::core::dtype_name(type));
      const auto config = with<TestType>(c.experts, true);
      const zrt::models::Model model = make_model(config);
      const Batch batch = recipe_batch(config, 2, 13, 0);
      const auto grads = [&](const RunOptions& options) {
        BlockRunner runner(model, {.B = 2, .T = 13, .type = type, .grad_type = type});
        runner.load(weights_of(config));
        runner.train(batch, options);
        return runner.grads();
      };
      const Tensors plain = grads({});
      CHECK(grads({}) == plain);
      CHECK(grads({.recompute = true}) == plain);
    }
  }
}

// Choices are those of the same rounded weights where their margin is more than what bf16 makes of logits: they are
// those of a batch of few rows.
TEMPLATE_TEST_CASE("bf16 layers of experts stay within the rounding of bf16 of the fp64 reference", "", Gpt2Config,
                   LlamaConfig) {
  for (const Case& c : cases) {
    INFO(c.name);
    const auto config = with<TestType>(c.experts, true);
    Tensors weights = weights_of(config, 2);
    for (auto& [name, values] : weights)
      for (double& value : values)
        value = static_cast<double>(zrt::core::to_float(zrt::core::to_bf16(static_cast<float>(value))));
    const Batch batch = decided_batch(config, weights, 1, 3, 0.05);
    const zrt::models::Model model = make_model(config);
    for (const DType grad_type : {DType::bf16, DType::f32}) {
      BlockRunner runner(model, {.B = 1, .T = 3, .type = DType::bf16, .grad_type = grad_type});
      runner.load(weights);
      runner.train(batch);
      const ReferenceResult expected = reference(config, weights, batch);
      check_gradients(runner.grads(), expected.grads, 2 * rounded_gradient(config), expected.router_logit, 2);
    }
  }
}

}  // namespace zrt::experts_test

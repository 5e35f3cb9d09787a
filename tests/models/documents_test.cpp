// Samples of several documents: loss and gradients are those of the documents one at a time, in fp64.
#include <cmath>
#include <numeric>
#include <utility>

#include "catch.h"
#include "tests/models/block_runner.h"
#include "tests/models/golden.h"

namespace zrt::documents_test {

using namespace zrt::test;
using zrt::core::DType;
using zrt::models::Gpt2Config;
using zrt::models::LlamaConfig;

namespace {

using Lengths = std::vector<std::vector<int64_t>>;  // by sample

Gpt2Config small(const Gpt2Config&) {
  Gpt2Config config;
  config.layers = 2, config.hidden = 32, config.heads = 2, config.sequence = 150, config.vocab = 97;
  return config;
}
template <class Config>
Config small(const Config&) {
  Config config;
  config.layers = 2, config.hidden = 32, config.heads = 4, config.kv_heads = 2, config.sequence = 150;
  config.vocab = 97, config.ffn = 73, config.rope_theta = 3000, config.head_norms = true, config.tied = false;
  if constexpr (std::is_same_v<Config, GemmaConfig>) config.windows = {20, 2}, config.query_scalar = 24;
  return config;
}

// The deviation that models start from, 0.02, in place of the recipe's 0.115.
template <class Config>
Tensors weights_of(const Config& config) {
  Tensors weights = recipe_weights(config);
  for (const TensorShape& t : tensors_of(config)) {
    if (t.shape.size() != 2) continue;
    for (double& value : weights.at(t.name)) value = static_cast<double>(static_cast<float>(value * 0.1732));
  }
  for (auto& [name, values] : weights) {
    for (double& value : values) value = static_cast<double>(static_cast<float>(value));
  }
  return weights;
}

// One row in `each` has a target.
template <class Config>
Batch packed(const Config& config, const Lengths& lengths, int each) {
  const int64_t T = std::accumulate(lengths[0].begin(), lengths[0].end(), int64_t{0});
  Batch batch = recipe_batch(config, static_cast<int64_t>(lengths.size()), T, 0);
  for (const std::vector<int64_t>& sample : lengths) {
    for (const int64_t length : sample) {
      for (int64_t t = 0; t < length; ++t) batch.positions.push_back(static_cast<int32_t>(t));
    }
  }
  for (size_t r = 0; r < batch.targets.size(); ++r) {
    if (r % static_cast<size_t>(each) != 0) batch.targets[r] = models::not_counted;
  }
  return batch;
}

template <class Config>
ReferenceResult one_at_a_time(const Config& config, const Tensors& weights, const Batch& batch, const Lengths& lengths,
                              double scale) {
  ReferenceResult all;
  int64_t at = 0;
  for (const std::vector<int64_t>& sample : lengths) {
    for (const int64_t length : sample) {
      const auto part = [&](const std::vector<int32_t>& of) {
        return std::vector<int32_t>(of.begin() + at, of.begin() + at + length);
      };
      const ReferenceResult one =
          reference(config, weights, {1, length, part(batch.tokens), part(batch.targets)}, scale);
      all.loss_sum += one.loss_sum;
      for (const auto& [name, grad] : one.grads) {
        std::vector<double>& sum = all.grads[name];
        sum.resize(grad.size());
        for (size_t i = 0; i < grad.size(); ++i) sum[i] += grad[i];
      }
      at += length;
    }
  }
  return all;
}

}  // namespace

TEMPLATE_TEST_CASE("packed documents have the loss and the gradients of the documents one at a time", "", Gpt2Config,
                   LlamaConfig, GemmaConfig) {
  const auto config = small(TestType{});
  const Tensors weights = weights_of(config);
  const Lengths lengths = GENERATE(Lengths{{48}}, Lengths{{1, 7, 40}, {30, 1, 1, 16}}, Lengths{{64, 64, 22}, {3, 147}},
                                   Lengths{std::vector<int64_t>(60, 1)});
  const int each = GENERATE(1, 4);
  const bool recompute = GENERATE(false, true);
  const Batch batch = packed(config, lengths, each);
  const zrt::models::Model model = make_model(config);
  zrt::models::Shape shape{.B = batch.B, .T = batch.T};
  shape.documents = true;
  const float scale = 1 / static_cast<float>(batch.B * batch.T);
  const ReferenceResult expected = one_at_a_time(config, weights, batch, lengths, static_cast<double>(scale));
  BlockRunner runner(model, shape);
  runner.load(weights);
  const double loss = runner.train(batch, {.loss_scale = scale, .recompute = recompute});
  CAPTURE(lengths, each);
  // Gemma's norms round more; transformers' own gradients of it are 1.97e-6 off (gradient_test.cpp).
  const double tolerance = std::is_same_v<TestType, GemmaConfig> ? 1.97e-6 : 1e-6;
  CHECK(std::abs(loss - expected.loss_sum) < 1e-6 * expected.loss_sum);
  CHECK(std::abs(runner.evaluate(batch) - expected.loss_sum) < 1e-6 * expected.loss_sum);
  std::vector<double> all, all_expected;
  const Tensors grads = runner.grads();
  for (const auto& [name, grad] : expected.grads) {
    const std::vector<double>& own = grads.at(name);
    all.insert(all.end(), own.begin(), own.end()), all_expected.insert(all_expected.end(), grad.begin(), grad.end());
    const bool none = std::all_of(grad.begin(), grad.end(), [](double x) { return x == 0; });
    CAPTURE(name);
    if (!none) CHECK(distance(own, grad) < 2 * tolerance);
  }
  CHECK(distance(all, all_expected) < tolerance);
}

TEST_CASE("documents that saw each other would have another loss") {
  const Gpt2Config config = small(Gpt2Config{});
  const Lengths lengths{{10, 20, 18}};
  const Batch batch = packed(config, lengths, 1);
  Batch joined = batch;
  joined.positions.clear();
  const zrt::models::Model model = make_model(config);
  const Tensors weights = recipe_weights(config);
  zrt::models::Shape shape{.B = 1, .T = 48};
  BlockRunner plain(model, shape);
  plain.load(weights);
  shape.documents = true;
  BlockRunner apart(model, shape);
  apart.load(weights);
  CHECK(std::abs(plain.train(joined) - apart.train(batch)) > 1e-3);
}

}  // namespace zrt::documents_test

// Dropout of the blocks of GPT-2 and BERT: its masks are a function of (seed, step, site, global element) only, and the
// gradients through them are those of the fp64 reference given the same masks.
#include <cmath>
#include <type_traits>

#include "catch.h"
#include "core/philox.h"
#include "tests/models/block_runner.h"
#include "tests/models/golden.h"

namespace zrt::gpt2_dropout_test {

using namespace zrt::test;
using zrt::core::DType;
using zrt::models::BertConfig;
using zrt::models::Gpt2Config;
using zrt::models::make_gpt2;

namespace {

template <class Config>
Config small(bool tied) {
  Config config;
  config.layers = 2, config.hidden = 32, config.heads = 2, config.sequence = 16, config.vocab = 97;
  config.dropout = 0.1f, config.tied = tied;
  if constexpr (std::is_base_of_v<BertConfig, Config>) {
    config.masking.cls = 94, config.masking.separator = 95, config.masking.mask = 96;
  }
  return config;
}

// The definition: an element is kept when the uniform number of its index is at least p.
template <class Config>
DropoutMask philox_masks(const Config& config, int64_t T, const RunOptions& options) {
  return [=](DropoutSite site, int64_t index) {
    const bool embedding = site.kind == DropoutSite::embedding, attention = site.kind == DropoutSite::attention;
    zrt::core::RngKey key{options.seed, options.step, 0};
    if (!embedding) key.tensor = static_cast<uint32_t>(3 * site.layer + site.kind);
    const uint64_t sample = static_cast<uint64_t>(attention ? config.heads * T * T : T * config.hidden);
    const uint32_t word = zrt::core::random_word(key, options.first_sample * sample + static_cast<uint64_t>(index));
    return zrt::core::uniform(word) < config.dropout ? 0 : 1 / (1 - static_cast<double>(config.dropout));
  };
}

}  // namespace

TEMPLATE_TEST_CASE("with dropout the fp32 blocks have the gradients of the fp64 reference under the same masks", "",
                   Gpt2Config, BertConfig, MegatronBertConfig) {
  const TestType config = small<TestType>(GENERATE(true, false));
  RunOptions options;
  options.seed = 0x123456789abcdef0u;
  options.step = 41;
  options.first_sample = GENERATE(uint64_t{0}, uint64_t{7}, uint64_t{1} << 33);
  const int64_t T = GENERATE(13, 16);  // 13: rows of the attention start off a Philox block
  const zrt::models::Model model = make_model(config);
  const Tensors weights = recipe_weights(config);
  const Batch batch = recipe_batch(config, 3, T, 0);
  BlockRunner runner(model, {.B = 3, .T = T});
  runner.load(weights);
  const double loss = runner.train(batch, options);
  const ReferenceResult expected = reference(config, weights, batch, 0, philox_masks(config, T, options));
  CHECK(std::abs(loss - expected.loss_sum) < 1e-6 * expected.loss_sum);
  const Tensors grads = runner.grads();
  for (const auto& [name, grad] : expected.grads) {
    INFO(name);
    if (has_no_gradient(name)) continue;
    CHECK(distance(grads.at(name), grad) < 2e-6 * rounding_of(name));  // of fp32; see gradient_test.cpp
  }
  const ReferenceResult without = reference(config, weights, batch);
  CHECK(std::abs(runner.evaluate(batch) - without.loss_sum) < 1e-6 * without.loss_sum);
}

TEMPLATE_TEST_CASE("dropout repeats to the bit, also when recomputed, and changes with seed, step and sample", "",
                   Gpt2Config, BertConfig, MegatronBertConfig) {
  const TestType config = small<TestType>(true);
  const zrt::models::Model model = make_model(config);
  const DType type = GENERATE(DType::f32, DType::bf16);
  BlockRunner runner(model, {.B = 3, .T = 13, .type = type, .grad_type = type});
  runner.load(recipe_weights(config));
  const Batch batch = recipe_batch(config, 3, 13, 0);
  const auto run = [&](const RunOptions& options) {
    runner.forget_grads();
    const double loss = runner.train(batch, options);
    return std::pair(loss, runner.grads());
  };
  const auto first = run({});
  CHECK(run({}) == first);
  CHECK(run({.recompute = true}) == first);
  CHECK(run({.seed = 2}).first != first.first);
  CHECK(run({.step = 1}).first != first.first);
  CHECK(run({.first_sample = 1}).first != first.first);
}

TEMPLATE_TEST_CASE("a batch cut into microbatches keeps its dropout masks", "", Gpt2Config, BertConfig,
                   MegatronBertConfig) {
  const TestType config = small<TestType>(true);
  const zrt::models::Model model = make_model(config);
  const Tensors weights = recipe_weights(config);
  const int64_t T = 13;
  const Batch batch = recipe_batch(config, 4, T, 0);
  BlockRunner whole(model, {.B = 4, .T = T}), parts(model, {.B = 1, .T = T});
  whole.load(weights);
  parts.load(weights);
  RunOptions options{.loss_scale = 0.25f, .first_sample = 4};
  const double loss = whole.train(batch, options);
  double sum = 0;
  for (int64_t b = 0; b < 4; ++b, ++options.first_sample)
    sum += parts.train({1,
                        T,
                        {batch.tokens.begin() + b * T, batch.tokens.begin() + (b + 1) * T},
                        {batch.targets.begin() + b * T, batch.targets.begin() + (b + 1) * T}},
                       options);
  CHECK(sum == Approx(loss).epsilon(1e-6));
  const Tensors expected = whole.grads();
  for (const auto& [name, grad] : parts.grads()) {
    INFO(name);
    if (!has_no_gradient(name)) CHECK(distance(grad, expected.at(name)) < 2e-6 * rounding_of(name));
  }
}

TEST_CASE("dropout of one in ten keeps nine in ten elements and scales them by 10 / 9") {
  Gpt2Config config = small<Gpt2Config>(true);
  config.sequence = 128;
  const zrt::models::Model model = make_gpt2(config);
  const zrt::models::Block& embedding = *model.blocks.front();
  zrt::models::Call call;
  call.shape = {.B = 4, .T = 128};
  const int64_t elements = call.shape.rows() * config.hidden;
  GuardedBuffer wte(config.vocab * config.hidden * 4), wpe(config.sequence * config.hidden * 4), output(elements * 4);
  GuardedBuffer workspace(embedding.forward_workspace_bytes(call.shape));
  GuardedBuffer saved(embedding.saved_bytes(call.shape, 0));
  wte.store(DType::f32, std::vector<double>(config.vocab * config.hidden, 1));
  wpe.store(DType::f32, std::vector<double>(config.sequence * config.hidden, 0));
  const Batch batch = recipe_batch(config, 4, 128, 0);
  const std::vector<const void*> weights{wte.data(), wpe.data()};
  call.weights = weights;
  const Visible<int32_t> tokens = visible(batch.tokens);
  call.tokens = tokens.data();
  call.output = output.data();
  std::byte* const place[] = {saved.data()};
  call.saved = place;
  call.workspace = workspace.data();
  embedding.forward(call);
  int64_t kept = 0;
  for (double value : output.load(DType::f32, elements)) {
    if (value == 0) continue;
    ++kept;
    REQUIRE(value == Approx(1 / 0.9).epsilon(1e-6));
  }
  // Four standard deviations of a binomial count.
  const double n = static_cast<double>(elements);
  CHECK(std::abs(static_cast<double>(kept) - 0.9 * n) < 4 * std::sqrt(n * 0.9 * 0.1));
}

}  // namespace zrt::gpt2_dropout_test

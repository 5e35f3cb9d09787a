// Low-rank adapters beside the weights of linear layers. The oracle is the fp64 reference of the model whose weights
// have what adapters add: with W' = W + s B A, the gradients are dA = s Bᵀ dW' and dB = s dW' Aᵀ.
#include <algorithm>
#include <cmath>
#include <set>

#include "catch.h"
#include "models/common/product.h"
#include "tests/models/block_runner.h"
#include "tests/models/golden.h"
#include "tests/models/tensor_runner.h"

namespace zrt::adapters_test {

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;
using Catch::Matchers::Contains;

namespace {

constexpr int64_t T = 13;

Adapters lora(std::vector<std::string> targets = {}) {
  return {.rank = 3, .alpha = 5, .targets = std::move(targets)};
}

template <class Config>
Config with(Config config, const Adapters& adapters) {
  config.adapters = adapters;
  return config;
}

struct Case {
  Tensors weights;  // of the model with adapters
  Tensors merged;   // of the plain one
  std::map<std::string, std::vector<int64_t>> shapes;
};

bool in_out(const std::string& layer) {
  return layer.find("c_attn") != std::string::npos || layer.find("c_proj") != std::string::npos ||
         layer.find("c_fc") != std::string::npos;
}

const std::string down_name = ".lora_A.weight", up_name = ".lora_B.weight";

// Calls visit(layer, A, B, in, out) for each adapter.
template <class Visit>
void each_adapter(const Case& c, const Visit& visit) {
  for (const auto& [name, shape] : c.shapes) {
    if (!name.ends_with(down_name)) continue;
    const std::string layer = name.substr(0, name.size() - down_name.size());
    visit(layer, c.weights.at(name), c.weights.at(layer + up_name), shape[1], c.shapes.at(layer + up_name)[0]);
  }
}

template <class Config>
Case make_case(const Config& config) {
  Case c;
  Config plain = config;
  plain.adapters = {};
  c.weights = c.merged = recipe_weights(plain);
  Config whole = config;
  whole.degrees = {};
  const Model model = make_model(whole);
  for (const auto& ref : model.canonical_params()) {
    const Param& param = model.blocks[ref.block]->params()[ref.index];
    c.shapes[param.name] = param.shape;
    if (!param.adapter) continue;
    std::vector<double> numbers = recipe_numbers(param.name, static_cast<size_t>(param.elements()));
    for (double& number : numbers) number = static_cast<float>(0.2 * number);
    c.weights[param.name] = numbers;
  }
  const double s = static_cast<double>(config.adapters.scale());
  const int64_t r = config.adapters.rank;
  each_adapter(c, [&](const std::string& layer, const auto& A, const auto& B, int64_t in, int64_t out) {
    std::vector<double>& W = c.merged.at(layer + ".weight");
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < r; ++k) sum += B[o * r + k] * A[k * in + i];
        W[in_out(layer) ? i * out + o : o * in + i] += s * sum;
      }
    }
  });
  return c;
}

template <class Config>
Tensors expected_gradients(const Config& config, const Case& c, const Tensors& merged) {
  const double s = static_cast<double>(config.adapters.scale());
  const int64_t r = config.adapters.rank;
  Tensors all = merged;
  each_adapter(c, [&](const std::string& layer, const auto& A, const auto& B, int64_t in, int64_t out) {
    std::vector<double> dA(A.size()), dB(B.size());
    const std::vector<double>& dW = merged.at(layer + ".weight");
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) {
        const double d = s * dW[in_out(layer) ? i * out + o : o * in + i];
        for (int64_t k = 0; k < r; ++k) dA[k * in + i] += B[o * r + k] * d, dB[o * r + k] += d * A[k * in + i];
      }
    }
    all[layer + down_name] = dA, all[layer + up_name] = dB;
  });
  return all;
}

template <class Config>
Config plain_of(Config config) {
  config.adapters = {}, config.degrees = {};
  return config;
}

template <class Config>
void check_gradients(const Config& config, DType type, double bound) {
  const Case c = make_case(config);
  const Batch batch = recipe_batch(config, 3, T, 0);
  const ReferenceResult oracle = reference(plain_of(config), c.merged, batch);
  const Tensors expected = expected_gradients(config, c, oracle.grads);
  const Model model = make_model(config);
  BlockRunner runner(model, {.B = 3, .T = T, .type = type, .grad_type = DType::f32});
  runner.load(c.weights);
  const auto rows = static_cast<double>(batch.tokens.size());
  CHECK(runner.evaluate(batch) / rows == Approx(oracle.loss_mean).epsilon(bound));
  CHECK(runner.train(batch) / rows == Approx(oracle.loss_mean).epsilon(bound));
  Tensors made = runner.grads();
  REQUIRE(made.size() == expected.size());
  size_t adapters = 0;
  for (const auto& [name, values] : expected) {
    CAPTURE(model.type, core::dtype_name(type), name);
    adapters += name.ends_with(down_name) ? 1 : 0;
    if (has_no_gradient(name)) continue;
    CHECK(distance(without_key_bias(name, made.at(name)), without_key_bias(name, values)) < bound * rounding_of(name));
  }
  CHECK(adapters > 0);
  runner.train(batch);  // adds
  made = runner.grads();
  for (const auto& [name, values] : expected) {
    if (name.find(".lora_") == std::string::npos) continue;
    std::vector<double> twice = values;
    for (double& value : twice) value *= 2;
    CHECK(distance(made.at(name), twice) < bound * rounding_of(name));
  }
}

const Gpt2Config gpt2{.layers = 2, .hidden = 32, .heads = 4, .sequence = 16, .vocab = 97};
const LlamaConfig llama{
    .layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 40, .sequence = 16, .vocab = 97, .qkv_biases = true};
BertConfig bert() {
  BertConfig config{.layers = 1, .hidden = 32, .heads = 4, .sequence = 16, .vocab = 97};
  config.masking.cls = 94, config.masking.separator = 95, config.masking.mask = 96;
  return config;
}

}  // namespace

TEST_CASE("gradients of adapters and of all that lies below them are those of the fp64 reference") {
  // fp32: the models' own bound. bf16: rounded weights, activations and the products between an adapter's two.
  const auto [type, bound] = GENERATE(table<DType, double>({{DType::f32, 2e-6}, {DType::bf16, 4e-2}}));
  check_gradients(with(gpt2, lora()), type, bound);
  check_gradients(with(llama, lora()), type, bound);
  check_gradients(with(bert(), lora()), type, bound);
  check_gradients(with(gpt2, lora({"attn.c_attn"})), type, bound);
  check_gradients(with(llama, lora({"*layers.1.*_proj"})), type, bound);
}

TEST_CASE("an adapter whose B is zero changes no bit of the loss, and its A has no gradient") {
  const LlamaConfig config = with(llama, lora());
  Case c = make_case(config);
  const Batch batch = recipe_batch(config, 3, T, 0);
  const Model plain = make_model(llama), model = make_model(config);
  for (auto& [name, values] : c.weights) {
    if (name.ends_with(up_name)) std::fill(values.begin(), values.end(), 0.0);
  }
  BlockRunner without(plain, {.B = 3, .T = T}), runner(model, {.B = 3, .T = T});
  without.load(c.weights), runner.load(c.weights);
  CHECK(runner.train(batch) == without.train(batch));
  const Tensors made = runner.grads();
  for (const auto& [name, values] : without.grads()) CHECK(made.at(name) == values);
  for (const auto& [name, values] : made) {
    if (name.ends_with(down_name)) CHECK(std::all_of(values.begin(), values.end(), [](double v) { return v == 0; }));
  }
}

TEST_CASE("tensor-parallel ranks have the parts of adapters that their weights ask for") {
  for (const int ranks : {2, 4}) {
    for (const bool rows : {false, true}) {
      LlamaConfig config = with(llama, lora());
      config.kv_heads = 4;
      const Case c = make_case(config);
      const Batch batch = recipe_batch(config, 3, T, 0);
      const ReferenceResult oracle = reference(plain_of(config), c.merged, batch);
      const Tensors expected = expected_gradients(config, c, oracle.grads);
      config.degrees = {ranks, rows};
      const Model model = make_model(config);
      TensorRunner runner(model, {.B = 3, .T = T}, ranks, rows);
      runner.load(c.weights);
      CHECK(runner.train(batch) / static_cast<double>(3 * T) == Approx(oracle.loss_mean).epsilon(2e-6));
      const Tensors made = runner.grads();
      for (const auto& [name, values] : expected) {
        CAPTURE(ranks, rows, name);
        CHECK(distance(made.at(name), values) < 2e-6 * rounding_of(name));
      }
    }
  }
}

TEST_CASE("dropout of adapters draws the same numbers in forward and backward, and others in each step") {
  Adapters adapters = lora({"mlp.c_fc", "attn.c_proj"});
  adapters.dropout = 0.4f;
  const Gpt2Config config = with(gpt2, adapters);
  const Case c = make_case(config);
  const Batch batch = recipe_batch(config, 3, T, 0);
  const Model model = make_model(config);
  BlockRunner runner(model, {.B = 3, .T = T});
  const auto loss = [&](const Tensors& weights, uint32_t step = 0) {
    runner.load(weights);
    RunOptions options;
    options.loss_scale = 1, options.step = step;
    runner.forget_grads();
    return runner.train(batch, options);
  };
  CHECK(loss(c.weights, 0) == loss(c.weights, 0));
  CHECK(loss(c.weights, 0) != loss(c.weights, 1));
  CHECK(loss(c.weights) != runner.evaluate(batch));
  loss(c.weights);
  const Tensors grads = runner.grads();
  // Central differences along the gradient of each adapter; fp32 losses of 39 tokens are off by some 1e-5.
  for (const auto& entry : grads) {
    const std::string& name = entry.first;
    const std::vector<double>& values = entry.second;
    if (name.find(".lora_") == std::string::npos) continue;
    double squares = 0;
    for (const double value : values) squares += value * value;
    const double length = std::sqrt(squares), step = 1e-2;
    const auto moved = [&](double by) {
      Tensors weights = c.weights;
      for (size_t i = 0; i < values.size(); ++i) weights.at(name)[i] += by * values[i] / length;
      return loss(weights);
    };
    CAPTURE(name);
    CHECK((moved(step) - moved(-step)) / (2 * step) == Approx(length).epsilon(0.02));
  }
}

TEST_CASE("each adapter of a model draws numbers of its own") {
  const Linear whole{.in = 8, .out = 8};
  std::set<uint32_t> sites;
  for (const char* layer : {"h.0.", "h.1.", "h.23."}) {
    std::vector<Param> params;
    for (const char* name : {"attn.c_attn", "attn.c_proj", "mlp.c_fc"}) {
      Product product = add_product(params, 1, layer + std::string(name), whole, 0.02f);
      add_adapter(product, params, 1, layer + std::string(name), whole, lora(), 1);
      sites.insert(product.linear.adapter.site);
    }
  }
  CHECK(sites.size() == 9);
}

TEST_CASE("targets take layers by the last parts of their names, or by patterns of whole names") {
  const Adapters some = lora({"q_proj", "mlp.down_proj", "*.layers.3.*"});
  CHECK(some.takes("model.layers.0.self_attn.q_proj"));
  CHECK(some.takes("model.layers.0.mlp.down_proj"));
  CHECK(some.takes("model.layers.3.self_attn.o_proj"));
  CHECK_FALSE(some.takes("model.layers.0.self_attn.k_proj"));
  CHECK_FALSE(some.takes("model.layers.0.self_attn.xq_proj"));
  CHECK_FALSE(some.takes("down_proj"));
  CHECK(lora().takes("anything"));
  CHECK_FALSE(Adapters().takes("anything"));
  CHECK(lora().scale() == 5.0f / 3);
  Adapters rooted = lora();
  rooted.by_root = true;
  CHECK(rooted.scale() == Approx(5 / std::sqrt(3.0)));
}

}  // namespace zrt::adapters_test

// Backward where some parameters are frozen: their gradients have no place, and all others keep their bits.
#include "catch.h"
#include "tests/models/block_runner.h"
#include "tests/models/golden.h"

namespace zrt::frozen_gradients_test {

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;

namespace {

constexpr int64_t T = 13;

template <class Config>
void check_frozen(const Config& config, DType type) {
  const Model all = make_model(config);
  const Tensors weights = recipe_weights(config);
  const Batch batch = recipe_batch(config, 3, T, 0);
  const Shape shape{.B = 3, .T = T, .type = type, .grad_type = type};
  BlockRunner whole(all, shape);
  whole.load(weights);
  const double loss = whole.train(batch);
  const Tensors grads = whole.grads();
  const auto check = [&](std::set<std::string, std::less<>> frozen) {
    Model some = all;
    some.frozen = std::move(frozen);
    BlockRunner runner(some, shape);
    runner.load(weights);
    CHECK(runner.train(batch) == loss);
    const Tensors made = runner.grads();
    for (const auto& [name, values] : grads) {
      INFO(all.type << ' ' << zrt::core::dtype_name(type) << ": " << name << ", frozen " << *some.frozen.begin()
                    << " … " << *some.frozen.rbegin());
      if (!some.frozen.contains(name)) CHECK(made.at(name) == values);
    }
  };
  std::set<std::string, std::less<>> names;
  for (const auto& [name, values] : grads) names.insert(name);
  for (const std::string& name : names) {
    check({name});
    std::set<std::string, std::less<>> others = names;
    others.erase(name);
    check(others);
  }
}

}  // namespace

TEST_CASE("parameters that are frozen, one or all but one, leave the gradients of the others their bits") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  Gpt2Config gpt2{.layers = 1, .hidden = 32, .heads = 2, .sequence = 16, .vocab = 97, .dropout = 0.3f};
  check_frozen(gpt2, type);
  LlamaConfig qwen{.layers = 1, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 40, .sequence = 16, .vocab = 97};
  qwen.head_norms = true;
  check_frozen(qwen, type);
  BertConfig bert{.layers = 1, .hidden = 32, .heads = 2, .sequence = 16, .vocab = 97};
  bert.masking.cls = 94, bert.masking.separator = 95, bert.masking.mask = 96;
  check_frozen(bert, type);
}

}  // namespace zrt::frozen_gradients_test

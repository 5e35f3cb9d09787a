// Numbers, not bits, are equal across tensor degrees: the loss and the gradients of a step, and the weights of SGD, to
// the rounding of fp32. Other optimizers amplify that rounding where gradients are no larger, by what these tests say.
#include <map>
#include <numbers>

#include "catch.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/small_models.h"

namespace zrt::tensor_numbers_test {

using namespace zrt;
using namespace zrt::testing;
using optimizer::OptimizerPtr;

namespace {

enum Which : int { gpt2, qwen3, bert };
constexpr int64_t layers = 2, hidden = 48, ffn = 4 * hidden, sequence = 12, vocab = 61;

models::Model model_of(int which, int tensor, bool rows) {
  constexpr std::array types{ModelType::gpt2, ModelType::qwen3, ModelType::bert};
  return make_small(types.at(static_cast<size_t>(which)), {.layers = layers,
                                                           .hidden = hidden,
                                                           .sequence = sequence,
                                                           .vocab = vocab,
                                                           .dropout = 0,
                                                           .tied = which != qwen3,
                                                           .degrees = {tensor, rows}});
}

constexpr std::array<std::pair<int, bool>, 4> degrees{{{2, false}, {3, true}, {4, false}, {4, true}}};

Setting setting_of(OptimizerPtr optimizer, double rate, int steps = 1) {
  Setting s;
  s.optimizer = std::move(optimizer), s.rate = rate, s.steps = steps;
  s.accumulation = s.reduce_every = 2;
  s.clip = 0;  // nothing joins the elements of a step
  return s;
}

Outcome train(int which, int tensor, bool rows, Setting s) {
  s.tensor = tensor, s.rows = rows;
  return run(model_of(which, tensor, rows), s);
}

using Tensors = std::map<std::string, std::vector<double>>;

// Gradients of the first step: that of SGD, at a rate beside which the old weights hardly show.
Tensors gradients_of(int which, int tensor, bool rows) {
  constexpr double rate = 1e5;
  const OptimizerPtr sgd = make_optimizer(optimizer::SgdParams{});
  const Outcome before = train(which, tensor, rows, setting_of(sgd, rate, 0)),
                after = train(which, tensor, rows, setting_of(sgd, rate));
  Tensors gradients;
  for (const auto& [name, values] : after.tensors) {
    for (size_t i = 0; i < values.size(); ++i) {
      gradients[name].push_back((static_cast<double>(before.tensors.at(name)[i]) - static_cast<double>(values[i])) /
                                rate);
    }
  }
  return gradients;
}

// A tensor rounded to fp32 is this much of its norm off, in the root mean square (tests/models/rounded_path.h).
const double fp32_rounding = 0x1p-24 * std::sqrt(2 * std::numbers::ln2 / 9);

// Bounds how far gradients of two tensor degrees may lie apart, relative to their norm. A sum of K terms in fp32 rounds
// K times; its parts have sqrt(k / K) of its size where terms have random signs, so that the errors' squares add up to
// K / 2 of one rounding's. The products on the way through a layer and back have these K: forward hidden (queries, keys
// and values), a head's width, the sequence, hidden (projection), hidden, ffn; backward hidden, ffn, hidden, a head's
// width, the sequence, 3 hidden. Before it comes the head, of hidden and the vocabulary, behind it the rows of a
// microbatch. The bound is twice that, for the gains and for one sample, as in rounded_path.h, times sqrt(2) for two
// results that both err.
double gradient_bound() {
  constexpr int64_t width = 4, rows = 2 * sequence;
  constexpr int64_t layer = 8 * hidden + 2 * ffn + 2 * width + 2 * sequence, outside = hidden + vocab + rows;
  return 2 * std::numbers::sqrt2 * fp32_rounding * std::sqrt(static_cast<double>(layers * layer + outside) / 2);
}

// The gradient of a bias of keys is nothing but rounding: it adds the same to all scores of a query.
bool nothing_but_rounding(const std::string& name, size_t element, size_t elements) {
  const bool third = 3 * element >= elements && 3 * element < 2 * elements;
  return name.ends_with("self.key.bias") || (name.ends_with("c_attn.bias") && third);
}

// Calls look(name, element, elements) for all.
template <class Look>
void for_each_element(const Tensors& tensors, const Look& look) {
  for (const auto& [name, values] : tensors) {
    for (size_t i = 0; i < values.size(); ++i) look(name, i, values.size());
  }
}

double norm_of(const Tensors& tensors) {
  double squares = 0;
  for (const auto& [name, values] : tensors) {
    for (const double x : values) squares += x * x;
  }
  return std::sqrt(squares);
}

// Norm of the difference over the norm of `b`.
double distance(const Tensors& a, const Tensors& b) {
  double squares = 0;
  for_each_element(
      b, [&](const std::string& name, size_t i, size_t) { squares += std::pow(a.at(name)[i] - b.at(name)[i], 2); });
  return std::sqrt(squares) / norm_of(b);
}

Tensors doubles(const std::map<std::string, std::vector<float>>& tensors) {
  Tensors all;
  for (const auto& [name, values] : tensors) all[name].assign(values.begin(), values.end());
  return all;
}

}  // namespace

TEST_CASE("a step's loss and gradients do not depend on the tensor degree, to the rounding of fp32") {
  for (const int which : {gpt2, qwen3, bert}) {
    const Tensors one = gradients_of(which, 1, false);
    const Outcome plain = train(which, 1, false, setting_of(make_optimizer(optimizer::SgdParams{}), 0));
    for (const auto& [tensor, rows] : degrees) {
      const Tensors shared = gradients_of(which, tensor, rows);
      const Outcome outcome = train(which, tensor, rows, setting_of(make_optimizer(optimizer::SgdParams{}), 0));
      CAPTURE(which, tensor, rows, distance(shared, one), gradient_bound());
      CHECK(distance(shared, one) < gradient_bound());
      CHECK(std::abs(outcome.losses[0] - plain.losses[0]) < gradient_bound() * plain.losses[0]);
      CHECK(std::abs(outcome.norms[0] - plain.norms[0]) < gradient_bound() * plain.norms[0]);
    }
  }
}

// Weights differ by the rate times the gradients' differences, and by a rounding a step of their own. Gradients of
// weights that differ already differ by as much times the curvature; rates such that the loss goes down steadily keep
// this below as much again.
TEST_CASE("SGD's weights do not depend on the tensor degree but by the rate times the gradients' rounding") {
  constexpr int steps = 20;
  constexpr double rate = 0.1;
  optimizer::SgdParams params;
  for (const int which : {gpt2, qwen3, bert}) {
    const Setting s = setting_of(make_optimizer(params), rate, steps);
    const Outcome one = train(which, 1, false, s);
    CHECK(distance(doubles(train(which, 1, false, setting_of(make_optimizer(params), rate, 0)).tensors),
                   doubles(one.tensors)) > 1e-3);  // they have moved, by far more than by their rounding
    double way = 0;
    for (const double norm : one.norms) way += rate * norm;
    const Tensors weights = doubles(one.tensors);
    const double most = 2 * gradient_bound() * way + fp32_rounding * std::sqrt(2.0 * steps) * norm_of(weights);
    for (const auto& [tensor, rows] : degrees) {
      const Outcome shared = train(which, tensor, rows, s);
      const double apart = distance(doubles(shared.tensors), weights) * norm_of(weights);
      CAPTURE(which, tensor, rows, apart, most, most / norm_of(weights));
      CHECK(apart < most);
      for (size_t step = 0; step < one.losses.size(); ++step) {
        CHECK(std::abs(shared.losses[step] - one.losses[step]) < 2 * gradient_bound() * one.losses[step]);
      }
    }
  }
}

// The first step of Adam is rate · g / (|g| + eps): its slope is rate · eps / (|g| + eps)², so that gradients g and h
// move a weight by rate · |g - h| / (min(|g|, |h|) + eps) apart at most: by up to twice the rate where both are
// rounding.
TEST_CASE("Adam's weights differ across tensor degrees by the gradients' rounding over the gradient and epsilon") {
  constexpr double rate = 1e-3, eps = 1e-8;
  const OptimizerPtr adam = make_optimizer(optimizer::AdamParams{0.9f, 0.999f, static_cast<float>(eps), 0.1f});
  for (const int which : {gpt2, qwen3, bert}) {
    const Tensors g = gradients_of(which, 1, false);
    const Outcome one = train(which, 1, false, setting_of(adam, rate));
    for (const auto& [tensor, rows] : degrees) {
      const Tensors h = gradients_of(which, tensor, rows);
      const Outcome shared = train(which, tensor, rows, setting_of(adam, rate));
      size_t wrong = 0;
      double farthest = 0, of_sgd = 0;
      for_each_element(g, [&](const std::string& name, size_t i, size_t) {
        const double a = g.at(name)[i], b = h.at(name)[i], w = static_cast<double>(one.tensors.at(name)[i]);
        const double apart = std::abs(static_cast<double>(shared.tensors.at(name)[i]) - w);
        const double amplified = rate * std::abs(a - b) / (std::min(std::abs(a), std::abs(b)) + eps);
        // Every weight is rounded, and each step by a few operations; so is a gradient that SGD's weights tell.
        const double rounded = 0x1p-22 * (std::abs(w) + rate) + rate * 1e-13 / eps;
        wrong += apart > std::min(amplified, 2 * rate) + rounded;
        farthest = std::max(farthest, apart), of_sgd = std::max(of_sgd, rate * std::abs(a - b));
      });
      CAPTURE(which, tensor, rows, farthest, of_sgd);
      CHECK(wrong == 0);
      if (which == bert) CHECK(farthest > 100 * of_sgd);  // the biases of keys
    }
  }
}

// Lion's step is rate · sign(g): weights are equal where signs are, and else twice the rate apart.
TEST_CASE(
    "Lion's weights differ across tensor degrees where rounding has another sign than the gradient, by two steps") {
  constexpr double rate = 1e-3;
  const OptimizerPtr lion = make_optimizer(optimizer::LionParams{});
  for (const int which : {gpt2, qwen3, bert}) {
    const Tensors g = gradients_of(which, 1, false);
    const Outcome one = train(which, 1, false, setting_of(lion, rate));
    for (const auto& [tensor, rows] : degrees) {
      const Tensors h = gradients_of(which, tensor, rows);
      const Outcome shared = train(which, tensor, rows, setting_of(lion, rate));
      size_t wrong = 0, turned = 0, large = 0;
      for_each_element(g, [&](const std::string& name, size_t i, size_t elements) {
        const double a = g.at(name)[i], b = h.at(name)[i], w = static_cast<double>(one.tensors.at(name)[i]);
        const double apart = std::abs(static_cast<double>(shared.tensors.at(name)[i]) - w);
        const double signs = std::abs((a > 0) - (a < 0) - (b > 0) + (b < 0));
        // Differences of weights, which the gradients were read from, tell no sign below 1e-13.
        if (std::min(std::abs(a), std::abs(b)) > 1e-13)
          wrong += std::abs(apart - rate * signs) > 0x1p-22 * (std::abs(w) + rate);
        turned += signs != 0;
        large += signs != 0 && !nothing_but_rounding(name, i, elements) &&
                 std::min(std::abs(a), std::abs(b)) > gradient_bound() * norm_of({{name, g.at(name)}});
      });
      CAPTURE(which, tensor, rows, turned);
      CHECK(wrong == 0);
      CHECK(large == 0);
      if (which == bert) CHECK(turned > 0);
    }
  }
}

}  // namespace zrt::tensor_numbers_test

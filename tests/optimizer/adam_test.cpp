#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "catch.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/philox.h"
#include "isa_levels.h"
#include "optimizer/adam_update.h"
#include "optimizer/element_kernels.h"
#include "tests/data_folder.h"
#include "thread_counts.h"

namespace zrt::optimizer::adam_test {
namespace {

using core::to_float;

AdamStep step_at(const AdamParams& params, float lr, int t) {
  AdamStep step{.lr = lr};
  step.bias_correction1 = static_cast<float>(1 - std::pow(static_cast<double>(params.beta1), t));
  step.bias_correction2 = static_cast<float>(1 - std::pow(static_cast<double>(params.beta2), t));
  return step;
}

// Master weights, moments, a gradient and a weight copy of any type; everything that a step reads or writes.
struct State {
  test::Visible<float> master, moment1, moment2;
  test::Visible<uint8_t> grad, weight;
  bool operator==(const State& other) const {
    const auto same = [](const test::Visible<float>& a, const test::Visible<float>& b) {
      return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
    };
    return same(master, other.master) && same(moment1, other.moment1) && same(moment2, other.moment2) &&
           weight == other.weight;
  }
};

float grad_at(const State& s, int64_t i, DType type) {
  uint16_t half;
  float value;
  if (type == DType::f32) {
    std::memcpy(&value, s.grad.data() + i * 4, 4);
    return value;
  }
  std::memcpy(&half, s.grad.data() + i * 2, 2);
  return type == DType::bf16 ? to_float(core::bf16{half}) : to_float(core::f16{half});
}

State make_state(int64_t n, DType grad_type, DType weight_type) {
  State s;
  s.grad.resize(static_cast<size_t>(n) * core::dtype_size(grad_type));
  s.weight.assign(static_cast<size_t>(n) * core::dtype_size(weight_type), 0xA5);
  for (int64_t i = 0; i < n; ++i) {
    const auto draw = [&](uint32_t tensor) {
      return core::random_normal({.seed = 3, .tensor = tensor}, static_cast<uint64_t>(i));
    };
    s.master.push_back(draw(0));
    s.moment1.push_back(i % 5 == 0 ? 0 : draw(1) * 1e-2f);
    s.moment2.push_back(i % 5 == 0 ? 0 : std::abs(draw(2)) * 1e-4f);
    const float g = i % 7 == 0 ? 0 : draw(3) * std::ldexp(1.0f, static_cast<int>(i % 40) - 30);
    const uint16_t half = grad_type == DType::bf16 ? core::to_bf16(g).bits : core::to_f16(g).bits;
    if (grad_type == DType::f32) {
      std::memcpy(s.grad.data() + i * 4, &g, 4);
    } else {
      std::memcpy(s.grad.data() + i * 2, &half, 2);
    }
  }
  return s;
}

// The documented order of operations, one element after the other in plain fp32.
void scalar_step(const AdamParams& p, const AdamStep& step, State& s, DType grad_type, DType weight_type) {
  const float decay = p.decoupled ? step.lr * p.weight_decay : p.weight_decay;
  const float step_size = step.lr / step.bias_correction1, root_bc2 = std::sqrt(step.bias_correction2);
  const float rest1 = 1.0f - p.beta1, rest2 = 1.0f - p.beta2;
  for (size_t i = 0; i < s.master.size(); ++i) {
    volatile float g = grad_at(s, static_cast<int64_t>(i), grad_type);
    volatile float w = s.master[i];
    g = g * step.grad_scale;
    volatile float decayed = decay * w;
    if (p.decoupled) {
      w = w - decayed;
    } else {
      g = g + decayed;
    }
    volatile float m_old = p.beta1 * s.moment1[i], m_new = rest1 * g, square = g * g;
    volatile float v_old = p.beta2 * s.moment2[i], v_new = rest2 * square;
    volatile float m = m_old + m_new, v = v_old + v_new;
    volatile float root = std::sqrt(v);
    volatile float scaled = root / root_bc2;
    volatile float denominator = scaled + p.eps, numerator = step_size * m;
    volatile float change = numerator / denominator;
    w = w - change;
    s.master[i] = w, s.moment1[i] = m, s.moment2[i] = v;
    const float out = w;
    const uint16_t half = weight_type == DType::bf16 ? core::to_bf16(out).bits : core::to_f16(out).bits;
    if (weight_type == DType::f32) {
      std::memcpy(s.weight.data() + i * 4, &out, 4);
    } else {
      std::memcpy(s.weight.data() + i * 2, &half, 2);
    }
  }
}

AdamScalars scalars_of(const AdamParams& p, const AdamStep& s) {
  return {p.beta1,
          1.0f - p.beta1,
          p.beta2,
          1.0f - p.beta2,
          s.grad_scale,
          p.eps,
          p.decoupled ? s.lr * p.weight_decay : p.weight_decay,
          s.lr / s.bias_correction1,
          std::sqrt(s.bias_correction2)};
}

TEST_CASE("every instruction set gives the bits of the documented scalar order, for all types", "[cpu]") {
  ZRT_ONLY_ON_CPU();
  const bool decoupled = GENERATE(true, false);
  const DType grad_type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const DType weight_type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const AdamParams params{.eps = 1e-8f, .weight_decay = 0.1f, .decoupled = decoupled};
  AdamStep step = step_at(params, 1e-3f, 7);
  step.grad_scale = 0.37f;
  const State start = make_state(1024, grad_type, weight_type);
  State expected = start;
  scalar_step(params, step, expected, grad_type, weight_type);
  for (const core::Isa isa : test::compiled_isas()) {
    const auto& kernels = adam_kernels(isa);
    const auto& row = kernels.step[decoupled][static_cast<size_t>(grad_type)];
    State s = start;
    row[static_cast<size_t>(weight_type)](scalars_of(params, step), 1024, s.master.data(), s.moment1.data(),
                                          s.moment2.data(), s.grad.data(), s.weight.data());
    CHECK(s == expected);
    s = start;
    row[no_weight_copy](scalars_of(params, step), 1024, s.master.data(), s.moment1.data(), s.moment2.data(),
                        s.grad.data(), nullptr);
    CHECK(s.weight == start.weight);
    s.weight = expected.weight;
    CHECK(s == expected);
  }
}

TEST_CASE("any split at multiples of 64 and any number of threads give the same bits") {
  const AdamParams params{.weight_decay = 0.01f};
  const AdamStep step = step_at(params, 1e-3f, 2);
  constexpr int64_t n = 64 * 37;
  const State start = make_state(n, DType::bf16, DType::bf16);
  State expected = start;
  scalar_step(params, step, expected, DType::bf16, DType::bf16);
  const auto update = [&](State& s, int64_t begin, int64_t count) {
    adam_update(params, step, count, s.master.data() + begin, s.moment1.data() + begin, s.moment2.data() + begin,
                s.grad.data() + begin * 2, DType::bf16, s.weight.data() + begin * 2, DType::bf16);
  };
  for (const int threads : thread_counts()) {
    core::set_threads(threads);
    for (const int64_t shard : {int64_t{64}, int64_t{192}, int64_t{1024}, n}) {
      State s = start;
      for (int64_t begin = 0; begin < n; begin += shard) update(s, begin, std::min(shard, n - begin));
      test::settle();
      CHECK(s == expected);
    }
  }
  core::set_threads(1);
}

TEST_CASE("ten steps stay within fp32 rounding of the same rule in fp64") {
  const bool decoupled = GENERATE(true, false);
  const AdamParams p{.beta2 = 0.95f, .weight_decay = 0.1f, .decoupled = decoupled};
  constexpr int64_t n = 256;
  State s = make_state(n, DType::f32, DType::bf16);
  std::vector<double> w(s.master.begin(), s.master.end()), m(s.moment1.begin(), s.moment1.end());
  std::vector<double> v(s.moment2.begin(), s.moment2.end());
  const double lr = 1e-2f, b1 = p.beta1, b2 = p.beta2, eps = p.eps, wd = p.weight_decay;
  for (int t = 1; t <= 10; ++t) {
    AdamStep step = step_at(p, 1e-2f, t);
    step.grad_scale = 0.5f;
    adam_update(p, step, n, s.master.data(), s.moment1.data(), s.moment2.data(), s.grad.data(), DType::f32,
                s.weight.data(), DType::bf16);
    test::settle();
    for (size_t i = 0; i < w.size(); ++i) {
      double g = static_cast<double>(grad_at(s, static_cast<int64_t>(i), DType::f32)) * 0.5;
      if (decoupled) {
        w[i] -= lr * wd * w[i];
      } else {
        g += wd * w[i];
      }
      m[i] = b1 * m[i] + (1 - b1) * g;
      v[i] = b2 * v[i] + (1 - b2) * g * g;
      w[i] -= lr / (1 - std::pow(b1, t)) * m[i] / (std::sqrt(v[i]) / std::sqrt(1 - std::pow(b2, t)) + eps);
    }
  }
  for (size_t i = 0; i < w.size(); ++i) {
    CHECK(static_cast<double>(s.master[i]) == Approx(w[i]).margin(2e-6));
    CHECK(static_cast<double>(s.moment1[i]) == Approx(m[i]).epsilon(1e-5).margin(1e-12));
    CHECK(static_cast<double>(s.moment2[i]) == Approx(v[i]).epsilon(1e-5).margin(1e-20));
    uint16_t copy;
    std::memcpy(&copy, s.weight.data() + i * 2, 2);
    CHECK(copy == core::to_bf16(s.master[i]).bits);
  }
}

TEST_CASE("the trajectories of torch.optim.AdamW and Adam are followed") {
  std::ifstream file(zrt::test::data_folder() + "/adam_golden.txt");
  REQUIRE(file);
  std::string word;
  int cases = 0;
  while (file >> word) {
    REQUIRE(word == "case");
    AdamParams p;
    float lr = 0;
    size_t count = 0;
    int steps = 0;
    file >> p.decoupled >> lr >> p.beta1 >> p.beta2 >> p.eps >> p.weight_decay >> count >> steps;
    test::Visible<float> w(64), m(64), v(64), g(64);
    for (size_t i = 0; i < count; ++i) file >> w[i];
    for (int t = 1; t <= steps; ++t) {
      for (size_t i = 0; i < count; ++i) file >> g[i];
      adam_update(p, step_at(p, lr, t), 64, w.data(), m.data(), v.data(), g.data(), DType::f32, nullptr, DType::f32);
      test::settle();
      for (size_t i = 0; i < count; ++i) {
        double expected = 0;
        REQUIRE(file >> expected);
        CHECK(static_cast<double>(w[i]) == Approx(expected).margin(1e-6));
      }
    }
    ++cases;
  }
  CHECK(cases == 3);
}

TEST_CASE("a count that is no multiple of 64 or a type without arithmetic is refused") {
  test::Visible<float> x(64);
  const auto update = [&](int64_t n, DType grad, DType weight) {
    adam_update({}, {}, n, x.data(), x.data(), x.data(), x.data(), grad, x.data(), weight);
  };
  CHECK_THROWS_AS(update(63, DType::f32, DType::bf16), core::Error);
  CHECK_THROWS_AS(update(64, DType::i32, DType::bf16), core::Error);
  CHECK_THROWS_AS(update(64, DType::f32, DType::u8), core::Error);
  CHECK_NOTHROW(update(0, DType::f32, DType::bf16));
}

}  // namespace
}  // namespace zrt::optimizer::adam_test

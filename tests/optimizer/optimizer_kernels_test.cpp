// The loops of optimizers: every instruction set gives the bits of plain scalar code.
#include <cmath>
#include <cstring>
#include <vector>

#include "catch.h"
#include "core/dtype.h"
#include "core/philox.h"
#include "isa_levels.h"
#include "optimizer/adafactor_kernels.h"
#include "optimizer/element_kernels.h"
#include "optimizer/optimizer.h"

namespace zrt::optimizer::optimizer_kernels_test {
namespace {

constexpr int64_t n = 331;  // no multiple of any vector

float draw(uint32_t tensor, int64_t i) {
  const float scale = std::ldexp(1.0f, -static_cast<int>(i % 30));
  return i % 11 == 0 ? 0 : core::random_normal({.seed = 5, .tensor = tensor}, static_cast<uint64_t>(i)) * scale;
}

// A gradient of each type, and what it means.
struct Grad {
  std::vector<uint8_t> bytes;
  std::vector<float> values;
};
Grad make_grad(size_t type) {
  Grad grad;
  for (int64_t i = 0; i < n; ++i) {
    const float g = draw(1, i);
    const core::bf16 b = core::to_bf16(g);
    const core::f16 h = core::to_f16(g);
    const void* from = type == 0 ? static_cast<const void*>(&g) : type == 1 ? static_cast<const void*>(&b) : &h;
    const size_t size = type == 0 ? 4 : 2;
    grad.bytes.resize(grad.bytes.size() + size);
    std::memcpy(grad.bytes.data() + grad.bytes.size() - size, from, size);
    grad.values.push_back(type == 0 ? g : type == 1 ? core::to_float(b) : core::to_float(h));
  }
  return grad;
}

std::vector<uint8_t> copy_of(const std::vector<float>& weights, size_t type) {
  std::vector<uint8_t> bytes;
  for (float w : weights) {
    const uint16_t half = type == 1 ? core::to_bf16(w).bits : core::to_f16(w).bits;
    const auto* from = type == 0 ? reinterpret_cast<const uint8_t*>(&w) : reinterpret_cast<const uint8_t*>(&half);
    if (type < 3) bytes.insert(bytes.end(), from, from + (type == 0 ? 4 : 2));
  }
  return bytes;
}

std::vector<float> make(uint32_t tensor) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(draw(tensor, i));
  return values;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <class Body>
void each_table(const Body& body) {
  for (const core::Isa isa : test::compiled_isas()) {
    CAPTURE(core::isa_name(isa));
    body(isa);
  }
}

// A product that no compiler can contract with a sum.
float times(float a, float b) {
  volatile float product = a * b;
  return product;
}

// Each variant of a rule, with the parameters of its defaults and some decay, against the rule itself.
template <class Rule, int variant = 0, class Kernels>
void check_rule(const Kernels& (*kernels)(core::Isa)) {
  constexpr int states = Rule::states(variant);
  typename Rule::Params params;
  params.weight_decay = 0.01f;
  Decision decision;
  decision.lr = 0.01, decision.grad_scale = 0.37f, decision.beta1 = 0.9f, decision.beta2 = 0.95f;
  decision.bias_correction1 = 0.5f, decision.bias_correction2 = 0.25f;
  const auto scalars = Rule::scalars(params, decision);
  const auto second = [] {
    std::vector<float> values = make(4);
    for (float& value : values) value = std::abs(value);
    return values;
  };
  for (size_t type = 0; type < 3; ++type) {
    const Grad grad = make_grad(type);
    std::vector<float> master = make(2), a = make(3), b = second();
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      float state0 = states > 0 ? a[i] : 0, state1 = states > 1 ? b[i] : 0;
      Rule::template apply<variant>(scalars, grad.values[i], master[i], state0, state1);
      if (states > 0) a[i] = state0;
      if (states > 1) b[i] = state1;
    }
    each_table([&](core::Isa isa) {
      for (size_t copy = 0; copy < 4; ++copy) {
        CAPTURE(variant, type, copy);
        std::vector<float> w = make(2), first = make(3), other = second();
        std::vector<uint8_t> weight = copy_of(make(5), copy);
        kernels(isa).step[variant][type][copy](scalars, n, w.data(), first.data(), other.data(), grad.bytes.data(),
                                               weight.data());
        CHECK(same(w, master));
        CHECK(same(first, a));
        CHECK(same(other, b));
        CHECK(weight == copy_of(master, copy));
      }
    });
  }
  if constexpr (variant + 1 < Rule::variants) check_rule<Rule, variant + 1>(kernels);
}

TEST_CASE("the kernels of every registered rule give the bits of its scalar code, for all variants and types",
          "[cpu]") {
  ZRT_ONLY_ON_CPU();
#define ZRT_CHECK_RULE(step, name, Name) \
  { \
    INFO(#name); \
    check_rule<Name##Rule>(name##_kernels); \
  }
  ZRT_ELEMENT_RULES(ZRT_CHECK_RULE)
}

TEST_CASE("SGD kernels give the bits of the documented scalar order, for all kinds and types", "[cpu]") {
  ZRT_ONLY_ON_CPU();
  const SgdScalars s{0.37f, 0.01f, 0.9f, 0.7f, 0.05f};
  for (size_t kind = 0; kind < 3; ++kind) {
    for (size_t type = 0; type < 3; ++type) {
      const Grad grad = make_grad(type);
      std::vector<float> master = make(2), buffer = make(3);
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        const float g = times(grad.values[i], s.grad_scale) + times(s.decay, master[i]);
        const float b = times(s.momentum, buffer[i]) + times(s.take, g);
        if (kind > 0) buffer[i] = b;
        const float step = kind == 0 ? g : kind == 1 ? b : g + times(s.momentum, b);
        master[i] = master[i] - times(s.lr, step);
      }
      each_table([&](core::Isa isa) {
        for (size_t copy = 0; copy < 4; ++copy) {
          std::vector<float> m = make(2), b = make(3);
          std::vector<uint8_t> weight = copy_of(make(4), copy);
          sgd_kernels(isa).step[kind][type][copy](s, n, m.data(), b.data(), nullptr, grad.bytes.data(), weight.data());
          CHECK(same(m, master));
          CHECK(same(b, buffer));
          CHECK(weight == copy_of(master, copy));
        }
      });
    }
  }
}

TEST_CASE("Lion kernels give the bits of the documented scalar order, for all types, and a zero moves nothing",
          "[cpu]") {
  ZRT_ONLY_ON_CPU();
  const LionScalars s{0.9f, 1 - 0.9f, 0.99f, 1 - 0.99f, 0.37f, 1 - 0.001f, 0.01f};
  for (size_t type = 0; type < 3; ++type) {
    const Grad grad = make_grad(type);
    std::vector<float> master = make(2), exp_avg = make(3);
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const float g = times(grad.values[i], s.grad_scale), m = exp_avg[i];
      const float c = times(s.beta1, m) + times(s.one_minus_beta1, g);
      master[i] = times(s.keep, master[i]) - (c > 0 ? s.lr : c < 0 ? -s.lr : 0);
      exp_avg[i] = times(s.beta2, m) + times(s.one_minus_beta2, g);
    }
    CHECK(master[0] == 0);
    each_table([&](core::Isa isa) {
      for (size_t copy = 0; copy < 4; ++copy) {
        std::vector<float> m = make(2), b = make(3);
        std::vector<uint8_t> weight = copy_of(make(4), copy);
        lion_kernels(isa).step[0][type][copy](s, n, m.data(), b.data(), nullptr, grad.bytes.data(), weight.data());
        CHECK(same(m, master));
        CHECK(same(b, exp_avg));
        CHECK(weight == copy_of(master, copy));
      }
    });
  }
}

TEST_CASE("sums of squares are exact: any order, cut and instruction set gives the same bits, near the true sum",
          "[cpu]") {
  ZRT_ONLY_ON_CPU();
  for (size_t type = 0; type < 3; ++type) {
    const Grad grad = make_grad(type);
    const size_t size = type == 0 ? 4 : 2;
    double bound = 0;
    long double row_sum = 0;
    for (float g : grad.values) {
      const double scaled = static_cast<double>(times(g, 0.37f));
      bound += scaled * scaled, row_sum += static_cast<long double>(scaled) * static_cast<long double>(scaled);
    }
    const Bins bins = make_bins(2 * bound);
    std::array<double, 3> reference{};
    std::vector<double> reference_columns;
    each_table([&](core::Isa isa) {
      for (int64_t cut : {n, int64_t{1}, int64_t{64}, int64_t{200}}) {
        std::array<double, 3> row{};
        std::vector<double> columns(3 * n);
        // Pieces from the back to the front; a second pass adds a second row to the columns.
        for (int64_t end = n; end > 0;) {
          const int64_t begin = (end - 1) / cut * cut;
          for (int pass = 0; pass < 2; ++pass) {
            std::array<double, 3> unused{};
            adafactor_kernels(isa).squares[type](grad.bytes.data() + static_cast<size_t>(begin) * size, end - begin,
                                                 0.37f, bins, pass == 0 ? row.data() : unused.data(),
                                                 columns.data() + begin, n);
          }
          end = begin;
        }
        if (reference_columns.empty()) reference = row, reference_columns = columns;
        CHECK(row == reference);
        CHECK(columns == reference_columns);
      }
    });
    CHECK(std::abs(static_cast<long double>(binned_value(reference[0], reference[1], reference[2])) - row_sum) <
          1e-15L * row_sum);
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const size_t plane = static_cast<size_t>(n);
      const double scaled = static_cast<double>(times(grad.values[i], 0.37f)), twice = 2 * scaled * scaled;
      const double value =
          binned_value(reference_columns[i], reference_columns[i + plane], reference_columns[i + 2 * plane]);
      // 109 bits below the bound; the fp64 value itself rounds.
      CHECK(std::abs(value - twice) <= 0x1p-52 * twice + 0x1p-104 * bound);
    }
  }
  CHECK(binned_value(0, 0, 0) == 0);
  CHECK(make_bins(0).at[0] == 0);
}

TEST_CASE("Adafactor's directions and updates give the bits of scalar code", "[cpu]") {
  ZRT_ONLY_ON_CPU();
  const AdafactorScalars s{1.7f, 0.01f, 0.9f, 1 - 0.9f, 0.002f};
  for (size_t type = 0; type < 3; ++type) {
    const Grad grad = make_grad(type);
    std::vector<float> factors = make(6), out(n), master = make(2), exp_avg = make(3);
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      out[i] = times(times(1.3f, factors[i]), times(grad.values[i], 0.37f));
    }
    for (bool momentum : {false, true}) {
      master = make(2), exp_avg = make(3);
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        float u = times(out[i] / s.clip, s.lr);
        if (momentum) u = exp_avg[i] = times(s.beta1, exp_avg[i]) + times(s.one_minus_beta1, u);
        volatile float decayed = master[i] - times(s.decay, master[i]);
        master[i] = decayed - u;
      }
      each_table([&](core::Isa isa) {
        std::vector<float> direction(n);
        adafactor_kernels(isa).direction[type](grad.bytes.data(), n, 0.37f, 1.3f, factors.data(), direction.data());
        CHECK(same(direction, out));
        for (size_t copy = 0; copy < 4; ++copy) {
          std::vector<float> m = make(2), b = make(3);
          std::vector<uint8_t> weight = copy_of(make(4), copy);
          adafactor_kernels(isa).apply[copy](s, n, direction.data(), m.data(), momentum ? b.data() : nullptr,
                                             weight.data());
          CHECK(same(m, master));
          CHECK(same(b, exp_avg));
          CHECK(weight == copy_of(master, copy));
        }
      });
    }
  }
}

}  // namespace
}  // namespace zrt::optimizer::optimizer_kernels_test

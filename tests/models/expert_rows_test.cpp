// Rows on their way to slots and back, and gates.
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "models/kernels/experts.h"
#include "tests/models/kernel_data.h"

namespace zrt::expert_rows_test {

using namespace zrt::models;
using namespace zrt::test;

namespace {

// 20 rows with three choices each, of which every fifth has no slot; the others lie in the slots from the last on.
const RoutingShape shape{.rows = 20, .experts = 6, .chosen = 3};

class Rows {
 public:
  Rows(DType element, int64_t width) : type(element), C(width) {
    int32_t next = static_cast<int32_t>(shape.slots()) - 1;
    for (size_t c = 0; c < slot.size(); ++c) {
      if (c % 5 == 2) continue;
      slot[c] = next, choice[static_cast<size_t>(next)] = static_cast<int32_t>(c);
      next -= c % 4 == 0 ? 2 : 1;
    }
  }

  KernelBuffer random(int64_t rows) const { return KernelBuffer::random(type, rows * C); }
  // The choice that a slot has, or -1.
  int64_t choice_of(int64_t s) const { return choice[static_cast<size_t>(s)]; }

  DType type;
  int64_t C;
  Visible<int32_t> slot = Visible<int32_t>(static_cast<size_t>(shape.rows * shape.choices()), -1);
  Visible<int32_t> choice = Visible<int32_t>(static_cast<size_t>(shape.slots()), -1);
};

template <class Body>
void for_rows(const Body& body) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const int64_t C : {19, 40, 300}) {
      INFO(core::dtype_name(type) << ", width " << C);
      body(Rows(type, C));
    }
  }
}

}  // namespace

TEST_CASE("slots get the rows of their choices, and empty ones zeros") {
  for_rows([](const Rows& rows) {
    const KernelBuffer x = rows.random(shape.rows);
    KernelBuffer y(rows.type, shape.slots() * rows.C);
    rows_to_slots(rows.type, shape, rows.choice.data(), x.data(), rows.C, y.data());
    const Doubles from = doubles(x);
    Doubles expected;
    for (int64_t s = 0; s < shape.slots(); ++s) {
      const int64_t c = rows.choice_of(s);
      for (int64_t i = 0; i < rows.C; ++i) {
        expected.push_back(c < 0 ? 0 : from[static_cast<size_t>(c / shape.choices() * rows.C + i)]);
      }
    }
    CHECK(doubles(y) == expected);
  });
}

TEST_CASE("rows get the sums of their slots, added to what is given") {
  for_rows([](const Rows& rows) {
    const KernelBuffer x = rows.random(shape.slots()), add = rows.random(shape.rows);
    const Doubles from = doubles(x), base = doubles(add);
    const auto expected = [&](bool adds) {
      Doubles all;
      for (int64_t r = 0; r < shape.rows; ++r) {
        for (int64_t i = 0; i < rows.C; ++i) {
          double sum = adds ? base[static_cast<size_t>(r * rows.C + i)] : 0;
          for (int64_t j = 0; j < shape.choices(); ++j) {
            const int32_t s = rows.slot[static_cast<size_t>(r * shape.choices() + j)];
            if (s >= 0) sum += from[static_cast<size_t>(s * rows.C + i)];
          }
          all.push_back(sum);
        }
      }
      return all;
    };
    KernelBuffer y(rows.type, shape.rows * rows.C), sum = y, in_place = add;
    slots_to_rows(rows.type, shape, rows.slot.data(), x.data(), rows.C, nullptr, y.data());
    slots_to_rows(rows.type, shape, rows.slot.data(), x.data(), rows.C, add.data(), sum.data());
    void* const both = in_place.data();
    slots_to_rows(rows.type, shape, rows.slot.data(), x.data(), rows.C, both, both);
    CHECK(error_of(y, expected(false)) < tolerance(rows.type));
    CHECK(error_of(sum, expected(true)) < tolerance(rows.type));
    CHECK(in_place == sum);
  });
}

TEST_CASE("gates multiply slots, and their gradients are products of rows") {
  for_rows([](const Rows& rows) {
    Visible<float> gate(rows.slot.size()), d_gate(rows.slot.size(), 77);
    for (size_t c = 0; c < gate.size(); ++c) gate[c] = 0.1f + static_cast<float>(c) / 64;
    const KernelBuffer x = rows.random(shape.slots()), d = rows.random(shape.slots());
    KernelBuffer y = x, y_again = x, dx = d;
    apply_gates(rows.type, shape, rows.choice.data(), gate.data(), rows.C, y.data());
    apply_gates_backward(rows.type, shape, rows.choice.data(), gate.data(), rows.C, y_again.data(), dx.data(),
                         d_gate.data());
    CHECK(y_again == y);
    const Doubles values = doubles(x), gradients = doubles(d);
    Doubles expected, expected_d, products(d_gate.size(), 77);
    for (int64_t s = 0; s < shape.slots(); ++s) {
      const int64_t c = rows.choice_of(s);
      const double factor = c < 0 ? 0 : static_cast<double>(gate[static_cast<size_t>(c)]);
      double sum = 0;
      for (int64_t i = 0; i < rows.C; ++i) {
        const auto at = static_cast<size_t>(s * rows.C + i);
        expected.push_back(factor * values[at]), expected_d.push_back(factor * gradients[at]);
        sum += values[at] * gradients[at];
      }
      if (c >= 0) products[static_cast<size_t>(c)] = sum;
    }
    CHECK(error_of(y, expected) < tolerance(rows.type));
    CHECK(error_of(dx, expected_d) < tolerance(rows.type));
    settle();
    for (size_t c = 0; c < products.size(); ++c) {
      // Up to 300 products of numbers within 1, added in fp32.
      CHECK(std::abs(static_cast<double>(d_gate[c]) - products[c]) < 1e-5);
    }
  });
}

}  // namespace zrt::expert_rows_test

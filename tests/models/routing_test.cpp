// Routing by hand: which expert gets which row, and what is dropped.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "catch.h"
#include "models/kernels/experts.h"
#include "tests/device.h"

namespace zrt::routing_test {

using namespace zrt::models;
using zrt::test::Visible;

namespace {

struct Routed {
  std::vector<int32_t> expert, slot, choice, starts, counts, wanted;
  std::vector<float> gate, probability;
};

template <class T>
std::vector<T> copy(const Visible<T>& values) {
  return {values.begin(), values.end()};
}

Routed routed(const RoutingShape& shape, const std::vector<float>& logits) {
  const auto n = static_cast<size_t>(shape.rows * shape.choices());
  const auto E = static_cast<size_t>(shape.experts), S = static_cast<size_t>(shape.slots());
  Visible<float> probability(logits.size()), gate(n), logs(static_cast<size_t>(shape.rows * shape.groups));
  Visible<int32_t> expert(n), slot(n), choice(S), starts(E), counts(E), wanted(E);
  std::copy(logits.begin(), logits.end(), probability.data());
  route(shape, probability.data(), logs.data(), expert.data(), gate.data());
  give_slots(shape, expert.data(), {slot.data(), choice.data(), starts.data(), counts.data(), wanted.data()});
  zrt::test::settle();
  return {copy(expert), copy(slot),   copy(choice), copy(starts),
          copy(counts), copy(wanted), copy(gate),   copy(probability)};
}

}  // namespace

TEST_CASE("of equal logits the lower expert is chosen") {
  const Routed all = routed({.rows = 2, .experts = 4, .chosen = 2}, {1, 1, 1, 1, 0, 2, 1, 2});
  CHECK(all.expert == std::vector<int32_t>{0, 1, 1, 3});
  CHECK(all.gate[0] == 0.25f);
}

TEST_CASE("experts' slots lie one behind the other, in the order of choices and then of rows") {
  // Rows choose (2, 0), (0, 2), (2, 1).
  const Routed all = routed({.rows = 3, .experts = 3, .chosen = 2}, {2, 1, 3, 3, 1, 2, 1, 2, 3});
  CHECK(all.expert == std::vector<int32_t>{2, 0, 0, 2, 2, 1});
  CHECK(all.wanted == std::vector<int32_t>{2, 1, 3});
  CHECK(all.counts == all.wanted);
  CHECK(all.starts == std::vector<int32_t>{0, slot_grain, 2 * slot_grain});
  CHECK(all.slot == std::vector<int32_t>{2 * slot_grain, 1, 0, 2 * slot_grain + 2, 2 * slot_grain + 1, slot_grain});
  for (size_t c = 0; c < all.slot.size(); ++c)
    CHECK(all.choice[static_cast<size_t>(all.slot[c])] == static_cast<int32_t>(c));
  CHECK(std::count(all.choice.begin(), all.choice.end(), -1) == static_cast<int64_t>(all.choice.size()) - 6);
}

TEST_CASE("beyond an expert's capacity second choices are dropped before first ones, and later rows before earlier") {
  const Routed all = routed({.rows = 3, .experts = 3, .chosen = 2, .capacity = 2}, {2, 1, 3, 3, 1, 2, 1, 2, 3});
  CHECK(all.wanted == std::vector<int32_t>{2, 1, 3});
  CHECK(all.counts == std::vector<int32_t>{2, 1, 2});
  CHECK(all.slot[3] == -1);  // the second choice of row 1
  const Routed one = routed({.rows = 3, .experts = 3, .chosen = 2, .capacity = 1}, {2, 1, 3, 3, 1, 2, 1, 2, 3});
  CHECK(one.slot == std::vector<int32_t>{2 * slot_grain, -1, 0, -1, -1, slot_grain});
}

TEST_CASE("all rows may choose one expert") {
  std::vector<float> logits(40 * 4, 0.0f);
  for (size_t r = 0; r < 40; ++r) logits[4 * r + 3] = 5;
  const RoutingShape shape{.rows = 40, .experts = 4, .chosen = 1};
  const Routed all = routed(shape, logits);
  CHECK(all.counts == std::vector<int32_t>{0, 0, 0, 40});
  std::vector<int32_t> rows(40);
  std::iota(rows.begin(), rows.end(), 0);
  CHECK(all.slot == rows);
  CHECK(shape.slots() >= 48);
}

TEST_CASE("each prototype chooses among its own experts, with gates of its own softmax") {
  const Routed all = routed({.rows = 1, .experts = 6, .groups = 3}, {1, 2, 5, 4, 0, 0});
  CHECK(all.expert == std::vector<int32_t>{1, 2, 4});
  for (size_t g = 0; g < 3; ++g) CHECK(std::abs(all.probability[2 * g] + all.probability[2 * g + 1] - 1) < 1e-6f);
  CHECK(all.gate[0] == all.probability[1]);
  const Routed normalised = routed({.rows = 1, .experts = 4, .chosen = 2, .normalised = true}, {1, 2, 5, 4});
  CHECK(std::abs(normalised.gate[0] + normalised.gate[1] - 1) < 1e-6f);
}

TEST_CASE("slots suffice whatever the routing") {
  for (const int64_t rows : {1, 5, 16, 33}) {
    for (const int64_t experts : {1, 2, 7, 40}) {
      const RoutingShape shape{.rows = rows, .experts = experts};
      // As uneven as it may be: each expert but one has a row, and one the rest.
      const int64_t used = std::min(rows, experts), rest = rows - used + 1;
      CHECK(shape.slots() >= (used - 1) * slot_grain + up_to_grain(rest));
    }
  }
}

}  // namespace zrt::routing_test

// Routing by hand: which expert gets which row, and what is dropped.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "catch.h"
#include "models/kernels/experts.h"
#include "tests/device.h"
#include "tests/seed.h"

namespace zrt::routing_test {

using namespace zrt::models;
using zrt::test::Visible;

namespace {

struct Routed {
  std::vector<int32_t> expert, slot, choice, starts, counts, wanted;
  std::vector<float> gate, probability, logs;
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
  return {copy(expert), copy(slot), copy(choice),      copy(starts), copy(counts),
          copy(wanted), copy(gate), copy(probability), copy(logs)};
}

// A row's group chooses so by a plain sort, and has this softmax in fp64.
struct Plain {
  std::vector<int32_t> chosen;
  std::vector<double> probability;
  double log = 0;
};
Plain plain(const float* logits, int64_t n, int64_t chosen, int32_t first) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  Plain result;
  for (int64_t j = 0; j < chosen; ++j) result.chosen.push_back(first + order[static_cast<size_t>(j)]);
  double sum = 0;
  for (int64_t e = 0; e < n; ++e) sum += std::exp(static_cast<double>(logits[e]));
  for (int64_t e = 0; e < n; ++e) result.probability.push_back(std::exp(static_cast<double>(logits[e])) / sum);
  result.log = std::log(sum);
  return result;
}

// Quarters within 4, so that many are equal.
std::vector<float> some_logits(const RoutingShape& shape) {
  std::mt19937 generator{zrt::test::test_seed()};
  std::uniform_int_distribution<int> quarters(-16, 16);
  std::vector<float> logits(static_cast<size_t>(shape.rows * shape.experts));
  for (float& logit : logits) logit = static_cast<float>(quarters(generator)) / 4;
  return logits;
}

const RoutingShape large_shapes[] = {
    {.rows = 1500, .experts = 6, .chosen = 2},
    {.rows = 1100, .experts = 12, .groups = 3, .chosen = 2, .capacity = 150, .normalised = true},
    {.rows = 40, .experts = 70, .chosen = 40, .capacity = 20, .normalised = true},
    {.rows = 3, .experts = 80, .groups = 2, .chosen = 33}};

}  // namespace

TEST_CASE("of equal logits the lower expert is chosen") {
  const Routed all = routed({.rows = 2, .experts = 4, .chosen = 2}, {1, 1, 1, 1, 0, 2, 1, 2});
  CHECK(all.expert == std::vector<int32_t>{0, 1, 1, 3});
  CHECK(all.gate[0] == 0.25f);
  // 0 and -0 are equal, too.
  CHECK(routed({.rows = 1, .experts = 3}, {-1, -0.0f, 0}).expert == std::vector<int32_t>{1});
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

TEST_CASE("choices and gates are those of a plain sort and of the softmax in fp64") {
  for (const RoutingShape& shape : large_shapes) {
    INFO(shape.rows << " rows, " << shape.experts << " experts");
    const std::vector<float> logits = some_logits(shape);
    const Routed all = routed(shape, logits);
    const int64_t n = shape.experts / shape.groups, k = shape.chosen;
    double off = 0;
    for (int64_t at = 0; at < shape.rows * shape.groups; ++at) {
      const auto first = static_cast<int32_t>(at % shape.groups * n);
      const Plain expected = plain(logits.data() + at * n, n, k, first);
      const auto choice = all.expert.begin() + at * k;
      REQUIRE(std::vector<int32_t>(choice, choice + k) == expected.chosen);
      double of_chosen = 0;
      for (const int32_t e : expected.chosen) of_chosen += expected.probability[static_cast<size_t>(e - first)];
      for (int64_t j = 0; j < k; ++j) {
        const double p = expected.probability[static_cast<size_t>(expected.chosen[static_cast<size_t>(j)] - first)];
        const double gate = shape.normalised ? p / of_chosen : p;
        off = std::max(off, std::abs(static_cast<double>(all.gate[static_cast<size_t>(at * k + j)]) / gate - 1));
      }
      for (int64_t e = 0; e < n; ++e) {
        const auto p = static_cast<double>(all.probability[static_cast<size_t>(at * n + e)]);
        off = std::max(off, std::abs(p / expected.probability[static_cast<size_t>(e)] - 1));
      }
      CHECK(std::abs(static_cast<double>(all.logs[static_cast<size_t>(at)]) - expected.log) < 2e-6);
    }
    CHECK(off < 2e-7);  // a power and its quotient, rounded to fp32 each
  }
}

TEST_CASE("slots are those of a plain loop, whatever the sizes") {
  for (const RoutingShape& shape : large_shapes) {
    INFO(shape.rows << " rows, " << shape.experts << " experts");
    const Routed all = routed(shape, some_logits(shape));
    std::vector<int32_t> wanted(static_cast<size_t>(shape.experts)), starts, counts;
    for (const int32_t e : all.expert) ++wanted[static_cast<size_t>(e)];
    int32_t start = 0;
    for (const int32_t count : wanted) {
      starts.push_back(start), counts.push_back(0);
      start += static_cast<int32_t>(up_to_grain(shape.capacity > 0 ? shape.capacity : count));
    }
    std::vector<int32_t> slot(all.expert.size(), -1), choice(static_cast<size_t>(shape.slots()), -1);
    for (int64_t j = 0; j < shape.choices(); ++j) {
      for (int64_t r = 0; r < shape.rows; ++r) {
        const auto c = static_cast<size_t>(r * shape.choices() + j), e = static_cast<size_t>(all.expert[c]);
        if (shape.capacity > 0 && counts[e] == shape.capacity) continue;
        slot[c] = starts[e] + counts[e]++;
        choice[static_cast<size_t>(slot[c])] = static_cast<int32_t>(c);
      }
    }
    CHECK(all.wanted == wanted);
    CHECK(all.starts == starts);
    CHECK(all.counts == counts);
    CHECK(all.slot == slot);
    CHECK(all.choice == choice);
  }
}

TEST_CASE("the gradient of logits is that of gates and of the router's losses by finite differences") {
  for (const RoutingShape& shape : {RoutingShape{.rows = 5, .experts = 80, .groups = 2, .chosen = 33},
                                    {.rows = 7, .experts = 8, .chosen = 3, .capacity = 2, .normalised = true}}) {
    const std::vector<float> logits = some_logits(shape);
    const Routed all = routed(shape, logits);
    const auto copied = [](const auto& values) { return zrt::test::visible(values); };
    const Visible<float> probability = copied(all.probability), logs = copied(all.logs), gate = copied(all.gate);
    const Visible<int32_t> expert = copied(all.expert), slot = copied(all.slot), wanted = copied(all.wanted);
    Visible<float> d_gate(gate.size()), d(logits.size());
    for (size_t c = 0; c < d_gate.size(); ++c) d_gate[c] = std::sin(static_cast<float>(c));
    constexpr double balance = 0.7, z = 0.3, h = 1e-4;
    route_backward(DType::f32, shape,
                   {probability.data(), logs.data(), gate.data(), d_gate.data(), expert.data(), slot.data(),
                    wanted.data(), balance, z},
                   d.data());
    zrt::test::settle();
    const int64_t n = shape.experts / shape.groups, k = shape.chosen;
    const auto groups = static_cast<double>(shape.groups);
    const double per_choice = balance / groups * static_cast<double>(n) / static_cast<double>(k * shape.rows);
    for (int64_t at = 0; at < shape.rows * shape.groups; ++at) {
      const int64_t first = at % shape.groups * n;
      std::vector<double> x(logits.begin() + at * n, logits.begin() + (at + 1) * n);
      const auto value = [&] {
        double sum = 0, of_chosen = 0, result = 0;
        for (const double one : x) sum += std::exp(one);
        const auto power = [&](int64_t c) {
          return std::exp(x[static_cast<size_t>(expert[static_cast<size_t>(c)] - first)]);
        };
        for (int64_t c = at * k; c < at * k + k; ++c) of_chosen += power(c);
        for (int64_t c = at * k; c < at * k + k; ++c) {
          if (slot[static_cast<size_t>(c)] < 0) continue;
          result +=
              static_cast<double>(d_gate[static_cast<size_t>(c)]) * power(c) / (shape.normalised ? of_chosen : sum);
        }
        for (int64_t e = 0; e < n; ++e) {
          result += per_choice * wanted[static_cast<size_t>(first + e)] * std::exp(x[static_cast<size_t>(e)]) / sum;
        }
        return result + z / groups * std::log(sum) * std::log(sum);
      };
      for (size_t e = 0; e < x.size(); ++e) {
        const double before = x[e];
        x[e] = before + h;
        const double above = value();
        x[e] = before - h;
        const double expected = (above - value()) / (2 * h);
        x[e] = before;
        const auto found = static_cast<double>(d[static_cast<size_t>(at * n) + e]);
        CHECK(std::abs(found - expected) < 2e-6 * (1 + std::abs(expected)));
      }
    }
  }
}

TEST_CASE("what a router did is told by the formulas of its losses, and added up") {
  for (const RoutingShape& shape : large_shapes) {
    const Routed all = routed(shape, some_logits(shape));
    const auto rows = static_cast<double>(shape.rows);
    double balance = 0, z = 0;
    for (size_t i = 0; i < all.probability.size(); ++i) {
      balance += static_cast<double>(all.probability[i]) * all.wanted[i % static_cast<size_t>(shape.experts)];
    }
    const auto groups = static_cast<double>(shape.groups);
    balance *= static_cast<double>(shape.experts / shape.groups) / static_cast<double>(shape.chosen) / (rows * rows);
    balance /= groups;
    for (const float log : all.logs) z += static_cast<double>(log) * static_cast<double>(log) / (rows * groups);
    const Visible<float> probability = zrt::test::visible(all.probability), logs = zrt::test::visible(all.logs);
    const Visible<int32_t> wanted = zrt::test::visible(all.wanted), counts = zrt::test::visible(all.counts);
    Visible<RouterTally> tally(1);
    Visible<ExpertLoad> loads(static_cast<size_t>(shape.experts));
    for (ExpertLoad* each : {loads.data(), loads.data(), static_cast<ExpertLoad*>(nullptr)}) {
      tally_routing(shape, probability.data(), logs.data(), wanted.data(), counts.data(), tally.data(), each);
    }
    zrt::test::settle();
    for (size_t e = 0; e < all.wanted.size(); ++e) {
      CHECK(loads[e].picked == static_cast<uint64_t>(2 * all.wanted[e]));
      CHECK(loads[e].dropped == static_cast<uint64_t>(2 * (all.wanted[e] - all.counts[e])));
    }
    const auto sum = [](const std::vector<int32_t>& each) { return std::accumulate(each.begin(), each.end(), 0); };
    const int32_t picks = sum(all.wanted), most = *std::max_element(all.wanted.begin(), all.wanted.end());
    CHECK(tally[0].layers == 3);
    CHECK(tally[0].choices == static_cast<uint64_t>(3 * picks));
    CHECK(tally[0].dropped == static_cast<uint64_t>(3 * (picks - sum(all.counts))));
    CHECK(std::abs(tally[0].balance - 3 * balance) < 1e-12 * balance);
    CHECK(std::abs(tally[0].z - 3 * z) < 1e-12 * z);
    CHECK(tally[0].peak ==
          Approx(static_cast<double>(most) * static_cast<double>(shape.experts) / picks).epsilon(1e-12));
  }
}

TEST_CASE("slots suffice whatever the routing") {
  for (const int64_t rows : {1, 5, 16, 33}) {
    for (const int64_t experts : {1, 2, 7, 40}) {
      const RoutingShape shape{.rows = rows, .experts = experts};
      // Routing is as uneven as it may be: each expert but one has a row, and one the rest.
      const int64_t used = std::min(rows, experts), rest = rows - used + 1;
      CHECK(shape.slots() >= (used - 1) * slot_grain + up_to_grain(rest));
    }
  }
}

}  // namespace zrt::routing_test

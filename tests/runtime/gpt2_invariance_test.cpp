// The invariance contract on the real model: with ranks, microbatches and reduce_every fixed, nothing else changes a
// bit of the weights after 20 steps, and the planned peak is the measured one.
#include <vector>

#include "catch.h"
#include "runtime/harness.h"

namespace {

using namespace zrt;
using testing::Setting;

struct Group {
  core::DType compute;
  float dropout;
  uint32_t accumulation, reduce_every;
  int ranks;
  bool tied;
};

// Under ThreadSanitizer, twenty times slower, a few groups and steps meet every lane already.
#ifdef __SANITIZE_THREAD__
constexpr size_t group_limit = 2;
constexpr int steps = 3;
#else
constexpr size_t group_limit = 1000;
constexpr int steps = 20;
#endif

// Every pair of values of every two factors; with ZRT_FULL_TESTS every combination.
std::vector<Group> groups() {
  constexpr auto f32 = core::DType::f32, bf16 = core::DType::bf16, f16 = core::DType::f16;
  if (!testing::full_tests()) {
    return {{f32, 0.0f, 1, 1, 2, true},  {bf16, 0.1f, 4, 4, 2, true},  {f32, 0.1f, 4, 1, 3, false},
            {bf16, 0.0f, 4, 1, 4, true}, {f32, 0.1f, 4, 4, 4, true},   {bf16, 0.1f, 1, 1, 3, true},
            {f32, 0.0f, 4, 4, 1, false}, {bf16, 0.1f, 4, 1, 1, true},  {bf16, 0.0f, 4, 4, 3, false},
            {f32, 0.1f, 1, 1, 1, false}, {bf16, 0.1f, 1, 1, 4, false}, {f32, 0.0f, 4, 1, 2, false},
            {f16, 0.1f, 2, 2, 2, true},  {f16, 0.0f, 2, 1, 3, false}};
  }
  std::vector<Group> all;
  for (auto compute : {f32, bf16, f16}) {
    for (float dropout : {0.0f, 0.1f}) {
      for (auto [accumulation, reduce_every] : {std::pair{1u, 1u}, {4u, 1u}, {4u, 4u}}) {
        for (int ranks : {1, 2, 3, 4}) {
          for (bool tied : {true, false}) all.push_back({compute, dropout, accumulation, reduce_every, ranks, tied});
        }
      }
    }
  }
  return all;
}

models::Model tiny(const Group& group) {
  return models::make_gpt2({2, 48, 2, 24, 61, group.dropout, group.tied});
}

}  // namespace

TEST_CASE("GPT-2's weights after 20 steps are the same bits whatever the stage, unit and bucket sizes") {
  std::vector<Group> chosen = groups();
  if (chosen.size() > group_limit) chosen.resize(group_limit);
  for (const Group& group : chosen) {
    const models::Model model = tiny(group);
    std::string expected;
    for (int stage = 0; stage <= 3; ++stage) {
      for (int64_t unit : {3000, 1 << 20}) {
        for (int repeat = 0; repeat < 2; ++repeat) {
          Setting s;
          s.ranks = group.ranks;
          s.stage = stage;
          s.compute = group.compute;
          if (group.compute == core::DType::f16) s.loss_scale = {.dynamic = true, .initial = 4096, .window = 7};
          s.accumulation = group.accumulation;
          s.reduce_every = group.reduce_every;
          s.unit_elements = unit;
          s.bucket = repeat == 0 ? unit : 2 * unit;
          s.overlap = repeat == 1;
          s.steps = steps;
          INFO(core::dtype_name(group.compute)
               << ", dropout " << group.dropout << ", accumulation " << group.accumulation << "/" << group.reduce_every
               << ", " << group.ranks << " ranks, tied " << group.tied << ", stage " << stage << ", unit " << unit
               << ", repeat " << repeat);
          const testing::Outcome outcome = testing::run(model, s);
          if (expected.empty()) expected = outcome.state;
          REQUIRE(outcome.state == expected);
          for (int r = 0; r < group.ranks; ++r) {
            REQUIRE(outcome.planned[static_cast<size_t>(r)] == outcome.measured[static_cast<size_t>(r)]);
          }
          REQUIRE(outcome.losses.back() < outcome.losses.front() + 1);
        }
      }
    }
  }
}

TEST_CASE("The same run with the same seed gives the same bits and another seed gives others") {
  const models::Model model = tiny({core::DType::f32, 0.1f, 1, 1, 2, true});
  Setting s;
  s.ranks = 2;
  s.stage = 3;
  const std::string first = testing::run(model, s).state;
  CHECK(testing::run(model, s).state == first);
  s.seed = 8;
  CHECK(testing::run(model, s).state != first);
}

TEST_CASE("A serialized run of GPT-2 holds exactly the live bytes the plan says, category by category") {
  for (auto compute : {core::DType::f32, core::DType::bf16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      const models::Model model = tiny({compute, 0.1f, 4, 4, 2, true});
      Setting s;
      s.ranks = 2;
      s.stage = stage;
      s.compute = compute;
      s.accumulation = s.reduce_every = 4;
      s.serialize = true;
      s.steps = 2;
      s.eval = true;
      const testing::Outcome outcome = testing::run(model, s);
      for (const runtime::LivePeak& live : outcome.live) {
        CHECK(live.total == outcome.plan.device().live_peak_bytes);
        CHECK(live.categories == outcome.plan.device().categories);
        CHECK(live.op == outcome.plan.device().peak_op);
      }
      CHECK(outcome.planned == outcome.measured);
    }
  }
}

// The invariance contract on a real model: with ranks, microbatches and reduce_every fixed, nothing else changes a bit
// of the weights after 20 steps, and the planned peak is the measured one.
#pragma once
#include <functional>
#include <vector>

#include "catch.h"
#include "runtime/harness.h"

namespace zrt::testing {

struct EqualRuns {
  core::DType compute;
  float dropout;
  uint32_t accumulation, reduce_every;
  int ranks;
  bool tied;
};
using MakeModel = std::function<models::Model(const EqualRuns& group)>;

// Under ThreadSanitizer, twenty times slower, a few groups and steps meet every lane already.
#ifdef __SANITIZE_THREAD__
inline constexpr size_t group_limit = 2;
inline constexpr int invariance_steps = 3;
#else
inline constexpr size_t group_limit = 1000;
inline constexpr int invariance_steps = 20;
#endif

// Every combination with these dropouts.
inline std::vector<EqualRuns> all_groups(const std::vector<float>& dropouts) {
  std::vector<EqualRuns> all;
  for (auto compute : {core::DType::f32, core::DType::bf16, core::DType::f16}) {
    for (float dropout : dropouts) {
      for (auto [accumulation, reduce_every] : {std::pair{1u, 1u}, {4u, 1u}, {4u, 4u}}) {
        for (int ranks : {1, 2, 3, 4}) {
          for (bool tied : {true, false}) all.push_back({compute, dropout, accumulation, reduce_every, ranks, tied});
        }
      }
    }
  }
  return all;
}

// Every stage, unit and bucket size, lead, persistence and secondary shard of each group gives the same bits.
inline void check_invariance(std::vector<EqualRuns> chosen, const MakeModel& make) {
  if (chosen.size() > group_limit) chosen.resize(group_limit);
  for (const EqualRuns& group : chosen) {
    const models::Model model = make(group);
    std::string expected;
    for (int stage = 0; stage <= 3; ++stage) {
      for (int64_t unit : {3000, 1 << 20}) {
        for (int repeat = 0; repeat < (stage == 3 ? 3 : 2); ++repeat) {
          Setting s;
          s.ranks = group.ranks;
          s.stage = stage;
          s.compute = group.compute;
          if (group.compute == core::DType::f16) s.loss_scale = {.dynamic = true, .initial = 4096, .window = 7};
          s.accumulation = group.accumulation;
          s.reduce_every = group.reduce_every;
          s.unit_elements = unit;
          s.bucket = repeat == 0 ? unit : 2 * unit;
          s.overlap = repeat > 0;
          if (repeat == 2) {
            s.prefetch = 5 * unit, s.persistence = 1000;
            s.groups.inner = group.ranks % 2 == 0 ? 2 : 1, s.groups.secondary = group.ranks % 2 == 0;
          }
          s.steps = invariance_steps;
          INFO(model.type << ", " << core::dtype_name(group.compute) << ", dropout " << group.dropout
                          << ", accumulation " << group.accumulation << "/" << group.reduce_every << ", " << group.ranks
                          << " ranks, tied " << group.tied << ", stage " << stage << ", unit " << unit << ", repeat "
                          << repeat);
          const Outcome outcome = run(model, s);
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

// A serialized run holds exactly the live bytes the plan says, category by category.
inline void check_live_bytes(float dropout, const MakeModel& make) {
  for (auto compute : {core::DType::f32, core::DType::bf16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      const models::Model model = make({compute, dropout, 4, 4, 2, true});
      Setting s;
      s.ranks = 2;
      s.stage = stage;
      s.compute = compute;
      s.accumulation = s.reduce_every = 4;
      s.serialize = true;
      s.steps = 2;
      s.eval = true;
      const Outcome outcome = run(model, s);
      for (const runtime::LivePeak& live : outcome.live) {
        CHECK(live.total == outcome.plan.device().live_peak_bytes);
        CHECK(live.categories == outcome.plan.device().categories);
        CHECK(live.op == outcome.plan.device().peak_op);
      }
      CHECK(outcome.planned == outcome.measured);
    }
  }
}

}  // namespace zrt::testing

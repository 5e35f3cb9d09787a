// Settings that change when and where weights and gradients travel change no bit; two levels of summing change some.

#include "catch.h"
#include "tests/optimizer/kind_of.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"

namespace zrt::overlap_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::OpKind;

namespace {

struct Schedule {
  uint32_t accumulation, every;
};
// Under ThreadSanitizer, twenty times slower, one schedule meets every lane already.
#ifdef __SANITIZE_THREAD__
constexpr bool brief = true;
constexpr Schedule schedules[] = {{3, 1}};
#else
constexpr bool brief = false;
constexpr Schedule schedules[] = {{1, 1}, {2, 1}, {5, 1}, {6, 2}, {4, 4}};
#endif

Setting setting(int stage, Schedule schedule, core::DType type) {
  Setting s;
  s.ranks = 4, s.stage = stage, s.steps = 3, s.unit_elements = 150, s.bucket = 300, s.compute = type;
  s.accumulation = schedule.accumulation, s.reduce_every = schedule.every;
  return s;
}

void check_same(const Outcome& outcome, const Outcome& plain) {
  CHECK(outcome.state == plain.state);
  CHECK(outcome.losses == plain.losses);
  CHECK(outcome.norms == plain.norms);
  CHECK(outcome.planned == outcome.measured);
}

}  // namespace

TEST_CASE("overlap, prefetch, persistence and secondary shards change no bit at any stage") {
  std::vector<std::optional<int64_t>> leads{{}, {200}, {100000}};
  std::vector<int64_t> persistences{0, 20};
  std::vector<int> inners{1, 2};
  if (full_tests()) leads.push_back(0), persistences.push_back(1000000), inners.push_back(4);
  for (bool tied : {false, true}) {
    if (brief && tied) continue;
    const models::Model model = make_toy(4, 12, 17, 5, tied, false);
    for (core::DType type : {core::DType::f32, core::DType::bf16}) {
      if (brief && type == core::DType::bf16) continue;
      for (Schedule schedule : schedules) {
        const Outcome plain = run(model, setting(0, schedule, type));
        for (int stage = 0; stage < 4; ++stage) {
          for (std::optional<int64_t> prefetch : leads) {
            for (int64_t persistence : persistences) {
              for (int inner : inners) {
                if (stage < 3 && (prefetch || persistence > 0 || inner > 1)) continue;
                Setting s = setting(stage, schedule, type);
                s.overlap = true, s.eval = true;
                s.prefetch = prefetch, s.persistence = persistence;
                s.groups.inner = inner, s.groups.secondary = inner > 1;
                CAPTURE(tied, stage, schedule.accumulation, schedule.every, prefetch.value_or(-1), persistence, inner,
                        core::dtype_name(type));
                check_same(run(model, s), plain);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("collectives on two levels repeat their own bits and agree with those on one") {
  const models::Model model = make_toy(4, 12, 17, 5, true, false);
  for (Schedule schedule : schedules) {
    const Outcome plain = run(model, setting(0, schedule, core::DType::f32));
    for (bool replicated : {false, true}) {
      std::optional<Outcome> first;
      for (int stage = replicated ? 3 : 0; stage < 4; ++stage) {
        for (bool overlap : {false, true}) {
          for (int64_t persistence : {0, 20}) {
            if (stage < 3 && persistence > 0) continue;
            Setting s = setting(stage, schedule, core::DType::f32);
            s.overlap = overlap, s.persistence = persistence;
            s.groups.inner = 2, s.groups.hierarchical = !replicated, s.groups.replicated = replicated;
            s.groups.secondary = stage == 3 && overlap && !replicated;
            CAPTURE(stage, overlap, persistence, replicated, schedule.accumulation, schedule.every);
            const Outcome outcome = run(model, s);
            CHECK(outcome.planned == outcome.measured);
            CHECK(relative_l2(outcome.weights, plain.weights) < 1e-5);
            if (!first) first = outcome;
            CHECK(outcome.state == first->state);
            CHECK(outcome.norms == first->norms);
          }
        }
      }
      CHECK(run(model,
                [&] {
                  Setting s = setting(3, schedule, core::DType::f32);
                  s.groups.inner = 2, s.groups.hierarchical = !replicated, s.groups.replicated = replicated;
                  return s;
                }())
                .state == first->state);
    }
  }
}

TEST_CASE("counters of both levels equal the closed form") {
  const models::Model model = make_toy(4, 12, 17, 5, false, false);
  for (Schedule schedule : schedules) {
    for (Islands groups :
         {Islands{2, true, false, false}, Islands{2, false, true, false}, Islands{2, true, true, false},
          Islands{2, false, false, true}, Islands{3, false, false, true}}) {
      Setting s = setting(3, schedule, core::DType::f32);
      s.ranks = 6, s.groups = groups, s.overlap = true;
      const Outcome outcome = run(model, s);
      CAPTURE(schedule.accumulation, schedule.every, groups.inner, groups.hierarchical, groups.secondary,
              groups.replicated);
      auto volume = [&](OpKind kind) {
        const auto found = outcome.comm.find(kind);
        return found == outcome.comm.end() ? runtime::CommVolume{} : found->second;
      };
      CHECK(volume(OpKind::gather).elements == 3 * outcome.forecast.gather);
      CHECK(volume(OpKind::reduce_grad).elements == 3 * outcome.forecast.reduce_grad);
      CHECK(volume(OpKind::gather).elements_between + volume(OpKind::reduce_grad).elements_between ==
            3 * outcome.forecast.between_groups);
      // Between groups a unit crosses once per gather, with a secondary shard once per step, and never in MiCS.
      uint64_t others = 0;
      for (const auto& unit : make_layout(model, s).units.units) {
        others += static_cast<uint64_t>(unit.elements / s.ranks) * static_cast<uint64_t>(s.ranks / groups.inner - 1);
      }
      const uint64_t gathered = volume(OpKind::gather).elements_between / 3;
      if (groups.replicated) CHECK(gathered == 0);
      if (groups.secondary) CHECK(gathered == others);
      if (!groups.replicated && !groups.secondary) CHECK(gathered > others);
      const uint64_t reduced = volume(OpKind::reduce_grad).elements_between / 3;
      if (groups.replicated) CHECK(reduced == 2 * others);
      if (groups.hierarchical) CHECK(reduced == others * (schedule.accumulation / schedule.every));
    }
  }
}

TEST_CASE("limits bound what is gathered at a time") {
  const models::Model model = make_toy(8, 12, 17, 5, false, false);
  auto gathered = [&](std::optional<int64_t> prefetch, int64_t max_live, bool overlap = true) {
    Setting s = setting(3, {1, 1}, core::DType::f32);
    s.overlap = overlap, s.prefetch = prefetch, s.max_live = max_live;
    const runtime::Compiled compiled = runtime::compile(make_layout(model, s), {"init", "step"});
    uint64_t most = 0;
    for (const runtime::LivePoint& point : runtime::live_bytes(compiled.set, compiled.set.program("step"))) {
      most = std::max(most, point.tiers[0][static_cast<size_t>(core::Category::gathered)]);
    }
    return most / sizeof(float);
  };
  const uint64_t none = gathered({}, INT64_MAX, false), one = gathered({}, INT64_MAX),
                 far = gathered(100000, INT64_MAX);
  CHECK(gathered(0, INT64_MAX) == none);
  CHECK(one > none);
  CHECK(far > 2 * one);
  CHECK(gathered(100000, 0) == none);
  CHECK(gathered(100000, 1000) <= std::max<uint64_t>(1000, none));
  CHECK(gathered(700, INT64_MAX) <= none + 700);
}

TEST_CASE("every optimizer steps alike on groups of ranks") {
  const models::Model model = make_toy(3, 24, 40, 4, true, true);
  const optimizer::OptimizerPtr all[] = {make_optimizer(optimizer::SgdParams{0.9f}),
                                         make_optimizer(optimizer::LionParams{}),
                                         make_optimizer(optimizer::AdafactorParams{})};
  for (const optimizer::OptimizerPtr& optimizer : all) {
    INFO(zrt::testing::kind_of(*optimizer));
    for (core::DType type : {core::DType::f32, core::DType::bf16}) {
      Setting s = setting(3, {2, 1}, type);
      s.optimizer = optimizer, s.overlap = true;
      const Outcome plain = run(model, s);
      CAPTURE(core::dtype_name(type));
      s.groups = {2, false, true, false};
      check_same(run(model, s), plain);
      for (Islands groups : {Islands{2, true, false, false}, Islands{2, false, false, true}}) {
        s.groups = groups;
        const Outcome outcome = run(model, s);
        CAPTURE(groups.replicated);
        // Lion steps by signs, and bf16 rounds: there a last bit of a sum may turn a step round.
        const bool exact =
            type == core::DType::f32 && optimizer::find_params<optimizer::LionParams>(optimizer) == nullptr;
        CHECK(relative_l2(outcome.weights, plain.weights) < (exact ? 1e-5 : 0.05));
        CHECK(run(model, s).state == outcome.state);
        CHECK(outcome.planned == outcome.measured);
      }
    }
  }
}

}  // namespace zrt::overlap_test

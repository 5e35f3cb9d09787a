// Groups of parameters with a decay and a rate of their own beside what else a run may choose: the same bits.
#include "catch.h"
#include "optimizer/groups.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/train/saving_run.h"

namespace zrt::parameter_groups_test {

using namespace zrt;
using namespace zrt::testing;
using optimizer::Moments;

namespace {

optimizer::OptimizerPtr grouped(Moments moments) {
  return optimizer::make_grouped(make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f, true, true, moments}),
                                 {{{"*.bias"}, 0.0, 1}, {{"embed*"}, {}, 0.5}, {{"linear.1.*"}, 0.3, 2}});
}

Setting setting(core::DType type, Moments moments, int ranks, int stage) {
  Setting s;
  s.optimizer = grouped(moments), s.compute = type, s.ranks = ranks, s.stage = stage, s.steps = 3;
  s.accumulation = s.reduce_every = 2;
  s.loss_scale.initial = type == core::DType::f16 ? 128 : 1;
  return s;
}

// Unit sizes, overlap, lanes and rows of updates: a bit each of `choice`.
Setting varied(Setting s, unsigned choice) {
  s.unit_elements = choice & 1 ? 100 : 9000;
  s.overlap = choice & 2, s.serialize = choice & 4;
  return s;
}

models::Model model_of(bool tied) {
  return make_toy(2, 40, 83, 5, tied, false);
}

}  // namespace

TEST_CASE("groups of parameters keep their bits under every form of states, stage and placement") {
  unsigned turn = 0;
  for (const core::DType type : {core::DType::f32, core::DType::bf16, core::DType::f16}) {
    for (const Moments moments : {Moments::f32, Moments::bf16, Moments::int8}) {
      const models::Model model = model_of(++turn % 2 == 0);
      if (left_to_processor(turn)) continue;
      Setting s = setting(type, moments, 1 + static_cast<int>(turn % 3), 0);
      const Outcome reference = run(model, s);
      for (s.stage = 0; s.stage < 4; ++s.stage) {
        for (const NamedPlacing& placing : placings()) {
          if (!full_tests() && ++turn % 3 != 0) continue;
          Setting other = varied(s, turn * 3 + static_cast<unsigned>(s.stage));
          other.placement = placing.place;
          const Outcome outcome = run(model, other);
          CAPTURE(core::dtype_name(type), static_cast<int>(moments), s.ranks, s.stage, placing.name, turn);
          CHECK(outcome.state == reference.state);
          CHECK(outcome.losses == reference.losses);
          CHECK(outcome.measured == outcome.planned);
          CHECK(outcome.measured_behind == outcome.planned_behind);
        }
      }
    }
  }
}

TEST_CASE("groups of parameters updated as soon as gradients are there give the same bits where nothing is clipped") {
  unsigned turn = 0;
  for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
    for (int stage = 0; stage < 4; ++stage) {
      const models::Model model = model_of(++turn % 2 == 0);
      if (left_to_processor(turn)) continue;
      Setting s = setting(type, Moments::f32, 2, stage);
      s.clip = 0;
      const Outcome reference = run(model, s);
      Setting early = varied(s, turn);
      early.early_updates = true;
      early.placement = placings()[turn % placings().size()].place;
      const Outcome outcome = run(model, early);
      CAPTURE(core::dtype_name(type), stage, turn);
      CHECK(outcome.state == reference.state);
      CHECK(outcome.losses == reference.losses);
      CHECK(outcome.measured == outcome.planned);
      early.early_updates = false, early.late_updates = true;
      CHECK(run(model, early).state == reference.state);
    }
  }
}

TEST_CASE(
    "groups of parameters go on from a checkpoint, on the same mesh with the same bits and on any with the same "
    "weights") {
  const models::Model model = model_of(false);
  for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
    const Setting s = setting(type, Moments::f32, 2, 3);
    const TemporaryFolder folder;
    SavingRun whole(model, s, folder.path, false);
    whole.steps(2);
    const std::string at_save = whole.hash();
    whole.save();
    REQUIRE(whole.saved().error.empty());
    whole.steps(3);
    const runtime::checkpoint::Reader reader(folder.path / "step_2", true);
    SavingRun again(model, s, folder.path / "again", false, &reader);
    again.steps(3);
    CHECK(again.hash() == whole.hash());
    for (const int ranks : {1, 2, 4}) {
      const int stage = 3 - ranks / 2;
      CAPTURE(core::dtype_name(type), ranks, stage);
      SavingRun other(model, setting(type, Moments::f32, ranks, stage), folder.path / "other", false, &reader);
      CHECK(other.hash() == at_save);
    }
  }
}

}  // namespace zrt::parameter_groups_test

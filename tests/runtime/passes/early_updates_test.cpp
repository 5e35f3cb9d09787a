// Updates that do not wait for the norm of the whole gradient: the same bits, in front of earlier blocks' backwards.
#include <limits>

#include "catch.h"
#include "core/error.h"
#include "models/model.h"
#include "runtime/cost/nominal_cluster.h"
#include "runtime/plan/simulator.h"
#include "runtime/verify/verifier.h"
#include "tests/optimizer/kind_of.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/verify/mutate.h"
#include "tests/runtime/wrapped_block.h"

namespace zrt::early_updates_test {

using namespace zrt;
using namespace zrt::testing;
using core::Tier;
using runtime::Op;
using runtime::OpKind;

namespace {

Setting early() {
  Setting s;
  s.clip = 0;
  s.early_updates = true;
  return s;
}

}  // namespace

TEST_CASE("optimizers without sums over ranks, a static loss scale and shared units keep their bits") {
  const std::vector<optimizer::OptimizerPtr> optimizers{make_optimizer(optimizer::AdamParams{}),
                                                        make_optimizer(optimizer::SgdParams{0.9f}),
                                                        make_optimizer(optimizer::LionParams{})};
  for (const auto& optimizer : optimizers) {
    INFO(zrt::testing::kind_of(*optimizer));
    for (int stage = 0; stage < 4; ++stage) {
      Setting s = early();
      s.ranks = 2, s.stage = stage, s.optimizer = optimizer, s.compute = core::DType::f16, s.steps = 3;
      s.loss_scale = {.dynamic = false, .initial = 64};
      s.placement = stage % 2 ? all_in(Tier::host, Tier::host) : nullptr;
      const models::Model model = make_toy(4, 12, 17, 5, stage == 1, stage != 1);
      const Outcome outcome = run(model, s);
      s.early_updates = false;
      const Outcome reference = run(model, s);
      CAPTURE(stage);
      CHECK(outcome.state == reference.state);
      CHECK(outcome.norms == reference.norms);
      CHECK(outcome.loss_scales == reference.loss_scales);
    }
  }
}

TEST_CASE("a unit is updated behind the backward that follows its own, and one that several blocks share behind all") {
  for (const bool tied : {false, true}) {
    for (int stage = 0; stage < 4; ++stage) {
      const models::Model model = make_toy(4, 12, 17, 5, tied, false);
      Setting s = early();
      s.ranks = 2, s.stage = stage, s.accumulation = 2, s.reduce_every = stage < 2 ? 2 : 1;
      s.unit_elements = 1;  // of one parameter each
      s.bucket = 1;
      const runtime::Layout layout = make_layout(model, s);
      const runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "export"});
      // The number of the last backward by block, and of backwards in front of its update by unit.
      std::vector<size_t> last(model.blocks.size()), before(layout.units.units.size());
      size_t backwards = 0;
      runtime::for_each_execution(compiled.set.program("step"), ~0u, [&](runtime::OpId id, uint32_t) {
        const Op& op = compiled.set.program("step").ops[id];
        if (op.kind == OpKind::backward) last[op.block] = ++backwards;
        if (op.kind == OpKind::update) before[op.units[0]] = backwards;
      });
      CAPTURE(tied, stage);
      for (size_t u = 0; u < before.size(); ++u) {
        const size_t own = last[layout.units.units[u].blocks.front()];
        CHECK(before[u] == std::min(own + 1, backwards));
      }
    }
  }
}

TEST_CASE("a step of one microbatch keeps no gradient behind its update, wherever gradients lie") {
  const models::Model model = make_toy(8, 16, 17, 5, false, false);
  for (int stage = 0; stage < 4; ++stage) {
    for (const Tier tier : {Tier::device, Tier::host}) {
      Setting s = early();
      s.ranks = 2, s.stage = stage, s.steps = 3, s.unit_elements = 1, s.bucket = 1;
      s.placement = all_in(tier, tier);
      const auto kept = [&](uint32_t accumulation) {
        s.accumulation = s.reduce_every = accumulation;
        const runtime::Compiled compiled = runtime::compile(make_layout(model, s), {"init", "step", "export"});
        const auto& states = compiled.plan.tiers[static_cast<size_t>(tier)].model_states;
        return states[static_cast<size_t>(core::Category::grads)];
      };
      CAPTURE(stage, static_cast<int>(tier));
      CHECK(kept(1) == 0);
      if (stage < 2) CHECK(kept(2) > 0);
      s.accumulation = s.reduce_every = 1;
      const Outcome ready = run(model, s);
      s.early_updates = false;
      const Outcome waiting = run(model, s);
      CHECK(ready.state == waiting.state);
      CHECK(ready.measured == ready.planned);
      CHECK(ready.measured_behind == ready.planned_behind);
      const auto peak = [&](const Outcome& o) { return tier == Tier::device ? o.planned[0] : o.planned_behind[0]; };
      CHECK(peak(ready) < peak(waiting));
    }
  }
}

TEST_CASE("a gradient that is not finite ends the run: weights had been updated, and nothing goes on from them") {
  for (int stage = 0; stage < 4; ++stage) {
    uint32_t step = 0;
    const models::Model model =
        wrap(make_toy(3, 12, 17, 5, false, false),
             {{}, [&](const models::Block& block, const Call& call, bool backward) {
                const bool here = backward && block.name() == "linear.1" && rank_of(call, 2) == 1 && call.rng.step == 1;
                if (here) poke(call.grads[0], call.shape.grad_type, 143, std::numeric_limits<float>::infinity());
              }});
    Setting s = early();
    s.ranks = 2, s.stage = stage;
    const runtime::Layout layout = make_layout(model, s);
    runtime::Session session(runtime::compile(layout, {"init", "step", "export", "save"}), session_options(s),
                             {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                                synthetic_batch(layout, step, rank, microbatch, to);
                              },
                              {}});
    session.run("init", {});
    session.run("step", {7, step++, 0, {1e-2}});
    session.run("save", {});
    CAPTURE(stage);
    CHECK_THROWS_AS(session.run("step", {7, step, 0, {1e-2}}), core::NumericError);
    for (const char* phase : {"save", "step", "export"}) {
      try {
        session.run(phase, {7, ++step, 0, {1e-2}});
        FAIL("the run went on");
      } catch (const core::NumericError& error) {
        const std::string message = error.what();
        CHECK(message.find("are damaged, and nothing of them is saved") != std::string::npos);
        CHECK(message.find("memory.update_when = \"after_norm\"") != std::string::npos);
      }
    }
    session.run("init", {});
    CHECK_NOTHROW(session.run("step", {7, 0, 0, {1e-2}}));
  }
}

TEST_CASE("what needs the norm before updates is refused") {
  const models::Model model = make_toy(3, 12, 17, 5, false, false);
  Setting s = early();
  s.optimizer = make_optimizer(optimizer::AdafactorParams{});
  CHECK_THROWS_AS(run(model, s), core::ConfigError);
  s = early();
  s.clip = 1;
  CHECK_THROWS_AS(run(model, s), core::ConfigError);
  s = early();
  s.loss_scale.dynamic = true;
  CHECK_THROWS_AS(run(model, s), core::ConfigError);
}

TEST_CASE("a block that runs behind the update of its weights is refused") {
  const models::Model model = make_toy(4, 12, 17, 5, false, false);
  const runtime::Layout layout = make_layout(model, early());
  runtime::ProgramSet set = runtime::compile(layout, {"init", "step", "export"}).set;
  runtime::Program& step = program_of(set, "step");
  insert_op(step, find_op(step, "share control"), step.ops[find_op(step, "forward embed")]);
  std::string message;
  try {
    runtime::verify(set, layout);
  } catch (const core::ProgramError& error) {
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.find("has updated 'embed.weight' before") != std::string::npos);
}

TEST_CASE(
    "states behind the device move while earlier blocks run: a step is no longer, and less of the way is exposed") {
  const models::Model model = models::make_gpt2({8, 512, 8, 512, 8192, 0, false});
  for (const Tier tier : {Tier::host, Tier::nvme}) {
    for (const Tier update : {Tier::host, Tier::device}) {
      for (int stage = 0; stage < 4; ++stage) {
        Setting s = early();
        s.ranks = 4, s.stage = stage, s.compute = core::DType::bf16, s.micro_batch = 4, s.overlap = true;
        s.accumulation = 2, s.reduce_every = stage < 2 ? 2 : 1;
        s.placement = all_in(tier, update);
        const auto simulated = [&](bool as_ready) {
          s.early_updates = as_ready;
          runtime::Layout layout = make_layout(model, s);
          layout.device = core::DeviceKind::cpu;
          const runtime::Compiled compiled = runtime::compile(layout, {"init", "step"}, {}, false);
          return runtime::simulate(compiled.set, compiled.set.program("step"), layout,
                                   runtime::nominal_cluster(layout.device));
        };
        const runtime::Simulation ready = simulated(true), waiting = simulated(false);
        CAPTURE(static_cast<int>(tier), static_cast<int>(update), stage);
        CAPTURE(ready.seconds, waiting.seconds, ready.exposed_io_seconds, waiting.exposed_io_seconds);
        CHECK(ready.seconds < waiting.seconds);
        CHECK(ready.exposed_io_seconds < waiting.exposed_io_seconds);
      }
    }
  }
}

}  // namespace zrt::early_updates_test

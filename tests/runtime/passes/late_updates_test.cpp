// Updates in the next step, in front of the blocks that read them: the bits of updates behind the norm, whatever is
// clipped or skipped.
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "core/error.h"
#include "models/model.h"
#include "optimizer/groups.h"
#include "optimizer/muon_rule.h"
#include "runtime/cost/nominal_cluster.h"
#include "runtime/plan/simulator.h"
#include "runtime/verify/verifier.h"
#include "tests/optimizer/kind_of.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::late_updates_test {

using namespace zrt;
using namespace zrt::testing;
using core::Tier;
using runtime::MicrobatchOrder;
using runtime::Op;
using runtime::OpKind;

namespace {

Setting late(int ranks, int stage) {
  Setting s;
  s.ranks = ranks, s.stage = stage, s.late_updates = true, s.steps = 3;
  return s;
}

Setting setting(unsigned number, int ranks, int stage) {
  Setting s = late(ranks, stage);
  s.compute = number % 3 == 0 ? core::DType::f32 : core::DType::bf16;
  s.accumulation = number % 4 == 1 ? 1 : 4;
  s.reduce_every = number % 4 == 0 ? 2 : number % 4 == 2 ? 4 : 1;
  s.unit_elements = number % 5 < 2 ? 100 : 100000;
  s.bucket = 2 * s.unit_elements;
  s.overlap = number % 2;
  s.order = number % 5 == 3 ? MicrobatchOrder::layer_major : MicrobatchOrder::automatic;
  if (number % 7 == 2) s.recompute = {runtime::Recompute::full};
  s.clip = number % 2 ? 0.05 : 1;
  s.eval = number % 3 == 1;
  return s;
}

void check_same(const Outcome& outcome, const Outcome& reference) {
  CHECK(outcome.state == reference.state);
  CHECK(outcome.losses == reference.losses);
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  CHECK(std::equal(outcome.norms.begin(), outcome.norms.end(), reference.norms.begin(), reference.norms.end(), same));
  CHECK(outcome.loss_scales == reference.loss_scales);
  CHECK(outcome.eval_loss == reference.eval_loss);
  CHECK(outcome.measured == outcome.planned);
  CHECK(outcome.measured_behind == outcome.planned_behind);
  CHECK(outcome.moved == outcome.moved_forecast);
}

}  // namespace

TEST_CASE("the time of updates changes no bit, and every tier holds what was planned") {
  std::vector<NamedPlacing> placings = testing::placings();
  placings.push_back({"all on the device", nullptr});
  unsigned number = 0;
  for (const NamedPlacing& placing : placings) {
    for (int ranks : {1, 2, 3}) {
      for (int stage = 0; stage < 4; ++stage, ++number) {
        if (!full_tests() && ranks + stage > 3 && (number + static_cast<unsigned>(ranks)) % 3 != 0) continue;
        for (const bool early : {false, true}) {
          const models::Model model = make_toy(4, 12, 17, 5, number % 2 == 1, false);
          Setting s = setting(number, ranks, stage);
          INFO(placing.name << ", ranks " << ranks << ", stage " << stage << ", number " << number << ", "
                            << (early ? "early" : "late"));
          s.late_updates = false;
          if (early) s.clip = 0;  // a norm that is not known cannot clip
          const Outcome reference = run(model, s);
          s.early_updates = early, s.late_updates = !early;
          s.placement = placing.place;
          s.serialize = number % 4 == 3;
          check_same(run(model, s), reference);
          const double largest = *std::max_element(reference.norms.begin(), reference.norms.end());
          if (s.clip > 0 && number % 2) CHECK(largest > s.clip);  // so that something was clipped
        }
      }
    }
  }
}

TEST_CASE("a step that overflows is skipped by updates of the next one as it is behind the norm") {
  for (int stage = 0; stage < 4; ++stage) {
    for (const Tier tier : {Tier::device, Tier::host, Tier::nvme}) {
      Setting s = late(2, stage);
      s.compute = core::DType::f16, s.steps = 10;
      s.loss_scale = {.dynamic = true, .initial = 1 << 20};
      s.placement = all_in(tier, tier == Tier::device ? Tier::device : Tier::host);
      const models::Model model = make_toy(4, 12, 17, 5, stage == 1, stage != 1);
      CAPTURE(stage, static_cast<int>(tier));
      const Outcome outcome = run(model, s);
      s.late_updates = false;
      check_same(outcome, run(model, s));
      CHECK(outcome.loss_scales.front() > outcome.loss_scales.back());  // so that a step was skipped,
      CHECK(outcome.loss_scales[8] == outcome.loss_scales[9]);          // and another one was not
    }
  }
}

TEST_CASE("all optimizers keep their bits with updates in the next step, those that exchange sums or matrices too") {
  const std::vector<optimizer::OptimizerPtr> optimizers{
      make_optimizer(optimizer::AdamParams{}), make_optimizer(optimizer::SgdParams{0.9f}),
      make_optimizer(optimizer::LionParams{}), make_optimizer(optimizer::AdafactorParams{}),
      make_split(make_optimizer(optimizer::AdamParams{}), make_optimizer(optimizer::MuonParams{}),
                 [](const models::Param& param, bool hidden) { return hidden && param.shape.size() == 2; })};
  for (const auto& optimizer : optimizers) {
    INFO(zrt::testing::kind_of(*optimizer));
    for (int stage = 0; stage < 4; ++stage) {
      Setting s = late(2, stage);
      s.optimizer = optimizer, s.overlap = stage % 2 == 0, s.accumulation = 2, s.reduce_every = stage < 2 ? 2 : 1;
      s.unit_elements = stage == 3 ? 100 : 100000;
      s.placement = stage % 2 ? with_exchanges_on_the_device(all_in(Tier::host, Tier::host)) : nullptr;
      const models::Model model = make_toy(4, 12, 17, 5, stage == 1, false);
      const Outcome outcome = run(model, s);
      s.late_updates = false;
      CAPTURE(stage);
      check_same(outcome, run(model, s));
    }
  }
}

TEST_CASE("phases between steps find the weights of all steps so far, and later steps go on as if there were none") {
  for (int stage = 0; stage < 4; ++stage) {
    const models::Model model = make_toy(3, 12, 17, 5, false, false);
    std::vector<std::vector<std::string>> hashes;
    std::vector<std::vector<double>> losses;
    for (const bool later : {false, true}) {
      Setting s = late(2, stage);
      s.late_updates = later;
      const runtime::Layout layout = make_layout(model, s);
      uint32_t step = 0;
      runtime::Session session(runtime::compile(layout, {"init", "step", "eval", "export", "save"}), session_options(s),
                               {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                                  synthetic_batch(layout, step, rank, microbatch, to);
                                },
                                {}});
      session.run("init", {});
      hashes.emplace_back(1, session.state_xxh3());
      losses.emplace_back();
      for (step = 0; step < 6; ++step) {
        session.run("step", {7, step, 0, {1e-2}});
        CHECK_FALSE(session.executor(0).control().decision[0].skip);
        if (step == 1) session.run("save", {});
        if (step == 2 || step == 3) session.run("eval", {7, step, 0, {}});
        losses.back().push_back(session.executor(0).control().mean_loss);
        if (step == 3 || step == 4) hashes.back().push_back(session.state_xxh3());
        if (step == 4) hashes.back().push_back(session.state_xxh3());  // which no second update changes
      }
      hashes.back().push_back(session.state_xxh3());
    }
    CAPTURE(stage);
    CHECK(hashes[0] == hashes[1]);
    CHECK(losses[0] == losses[1]);
    CHECK(hashes[1][2] == hashes[1][3]);
    CHECK(hashes[1][0] != hashes[1][1]);
  }
}

TEST_CASE("a unit is updated in front of the forward before the first that reads it") {
  for (const bool tied : {false, true}) {
    for (int stage = 0; stage < 4; ++stage) {
      const models::Model model = make_toy(4, 12, 17, 5, tied, false);
      Setting s = late(2, stage);
      s.accumulation = 2, s.reduce_every = stage < 2 ? 2 : 1, s.unit_elements = 1, s.bucket = 1;
      const runtime::Layout layout = make_layout(model, s);
      const runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "export"});
      std::vector<size_t> first(model.blocks.size(), ~size_t{0}), before(layout.units.units.size());
      size_t forwards = 0;
      runtime::for_each_execution(compiled.set.program("step"), ~0u, [&](runtime::OpId id, uint32_t) {
        const Op& op = compiled.set.program("step").ops[id];
        if (op.kind == OpKind::forward) first[op.block] = std::min(first[op.block], forwards), ++forwards;
        if (op.kind == OpKind::update) before[op.units[0]] = forwards;
      });
      CAPTURE(tied, stage);
      for (size_t u = 0; u < before.size(); ++u) {
        const size_t own = first[layout.units.units[u].blocks.front()];
        CHECK(before[u] == (own == 0 ? 0 : own - 1));
      }
    }
  }
}

TEST_CASE("a forward in front of its units' updates, and a gradient that is not kept for them, are refused") {
  const models::Model model = make_toy(4, 12, 17, 5, false, false);
  runtime::Layout layout = make_layout(model, late(1, 0));  // nothing but the step itself asks for an order
  const auto message = [&](const std::function<void(runtime::ProgramSet&)>& damage) {
    runtime::ProgramSet set = runtime::compile(layout, {"init", "step", "export"}).set;
    damage(set);
    try {
      runtime::verify(set, layout);
    } catch (const core::ProgramError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string early = message([](runtime::ProgramSet& set) {
    runtime::Program& step = program_of(set, "step");
    const runtime::OpId update = find_op(step, "update embed.weight"), forward = find_op(step, "forward embed");
    std::swap(step.ops[update], step.ops[forward]);
  });
  CAPTURE(early);
  CHECK(early.find("'forward embed' (turn 0) comes before the 'update' of 'embed.weight'") != std::string::npos);
  layout = make_layout(model, late(2, 2));
  const std::string unused = message([](runtime::ProgramSet& set) {
    runtime::Program& update = program_of(set, "update");
    const runtime::OpId id = find_op(update, "update embed.weight");
    update.ops.erase(update.ops.begin() + id);
    --update.segments.back().count;
  });
  CAPTURE(unused);
  CHECK(unused.find("a gradient that no update has used") != std::string::npos);
  const std::string missing = message([](runtime::ProgramSet& set) {
    runtime::Program& update = program_of(set, "update");
    update.ops.erase(update.ops.begin());
    --update.segments.front().count;
    update.segments.front().first = 0;
  });
  CAPTURE(missing);
  CHECK(!missing.empty());
}

TEST_CASE("states behind the device move while blocks run their forward: a step is shorter") {
  const models::Model model = models::make_gpt2({8, 512, 8, 512, 8192, 0, false});
  for (const Tier tier : {Tier::host, Tier::nvme}) {
    for (const Tier update : {Tier::host, Tier::device}) {
      for (int stage = 0; stage < 4; ++stage) {
        Setting s = late(4, stage);
        s.compute = core::DType::bf16, s.micro_batch = 4, s.overlap = true;
        s.accumulation = 2, s.reduce_every = stage < 2 ? 2 : 1;
        s.placement = all_in(tier, update);
        const auto simulated = [&](bool later) {
          s.late_updates = later;
          runtime::Layout layout = make_layout(model, s);
          layout.device = core::DeviceKind::cpu;
          const runtime::Compiled compiled = runtime::compile(layout, {"init", "step"}, {}, false);
          return runtime::simulate(compiled.set, compiled.set.program("step"), layout,
                                   runtime::nominal_cluster(layout.device));
        };
        const runtime::Simulation later = simulated(true), waiting = simulated(false);
        CAPTURE(static_cast<int>(tier), static_cast<int>(update), stage);
        CAPTURE(later.seconds, waiting.seconds, later.exposed_io_seconds, waiting.exposed_io_seconds);
        CHECK(later.seconds < waiting.seconds);
        // On the host's own lane updates wait less for what moves than they did, or as long; what is shorter is the
        // step.
        if (tier == Tier::nvme) CHECK(later.exposed_io_seconds < waiting.exposed_io_seconds);
      }
    }
  }
}

}  // namespace zrt::late_updates_test

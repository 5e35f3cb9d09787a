// Every optimizer in whole programs: the same bits whatever the layout, planned bytes, counted bytes, checked order.
#include <functional>

#include "catch.h"
#include "core/error.h"
#include "optimizer/groups.h"
#include "optimizer/optimizer.h"
#include "runtime/verify/checks.h"
#include "tests/optimizer/kind_of.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"

namespace zrt::optimizers_test {

using namespace zrt;
using namespace zrt::testing;
using core::Category;
using optimizer::OptimizerPtr;
using runtime::OpKind;

namespace {

OptimizerPtr adafactor(bool momentum, bool relative) {
  optimizer::AdafactorParams params;
  params.momentum = momentum;
  params.beta1 = 0.9;
  params.relative_step = params.scale_parameter = relative;
  params.weight_decay = 0.01;
  return make_optimizer(params);
}

// Returns optimizers whose updates change little where a gradient does.
std::vector<OptimizerPtr> smooth_optimizers() {
  return {
      make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f}),
      make_optimizer(optimizer::SgdParams{}),
      make_optimizer(optimizer::SgdParams{0.9f, 0, 0.01f, true}),
      adafactor(false, true),
      adafactor(true, false),
  };
}

// Returns optimizers whose updates are signs, which jump.
std::vector<OptimizerPtr> sign_optimizers() {
  return {
      make_optimizer(optimizer::LionParams{0.9f, 0.99f, 0.1f}),
  };
}

std::vector<OptimizerPtr> optimizers() {
  std::vector<OptimizerPtr> all = smooth_optimizers();
  for (const OptimizerPtr& optimizer : sign_optimizers()) all.push_back(optimizer);
  return all;
}

// One bit of `choice` for each thing that must not show.
Setting setting(const OptimizerPtr& optimizer, core::DType type, int ranks, uint32_t accumulation, int stage,
                unsigned choice) {
  Setting s;
  s.optimizer = optimizer, s.compute = type, s.ranks = ranks, s.stage = stage;
  s.accumulation = s.reduce_every = accumulation;
  s.unit_elements = choice & 1 ? 100 : 100000;
  s.bucket = 2 * s.unit_elements;
  s.overlap = choice & 2;
  s.serialize = choice & 4;
  s.steps = 3;
  return s;
}

models::Model model_of(bool tied) {
  return make_toy(3, 12, 17, 5, tied, false);
}

}  // namespace

TEST_CASE("stage, unit size, overlap and lanes do not change a bit under any optimizer") {
  unsigned group = 0;
  for (const OptimizerPtr& optimizer : optimizers()) {
    INFO(zrt::testing::kind_of(*optimizer));
    for (int ranks : {1, 2, 3}) {
      for (core::DType type : {core::DType::f32, core::DType::bf16}) {
        for (uint32_t accumulation : {1u, 2u}) {
          const models::Model model = model_of(++group % 2 == 0);
          if (left_to_processor(group)) continue;
          const Outcome reference = run(model, setting(optimizer, type, ranks, accumulation, 0, 0));
          REQUIRE(reference.losses.back() < reference.losses.front() + 1);
          for (int stage = 0; stage < 4; ++stage) {
            const unsigned choice = full_tests() ? 8 : (group * 3 + static_cast<unsigned>(stage) * 5) % 8;
            for (unsigned c = choice == 8 ? 0 : choice; c < std::min(choice + 1, 8u); ++c) {
              const Outcome outcome = run(model, setting(optimizer, type, ranks, accumulation, stage, c));
              CAPTURE(group, ranks, core::dtype_name(type), accumulation, stage, c);
              CHECK(outcome.state == reference.state);
              CHECK(outcome.losses == reference.losses);
              CHECK(outcome.measured == outcome.planned);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("every optimizer trains: it moves the weights, and each in its own way") {
  std::vector<std::string> states;
  for (const OptimizerPtr& optimizer : optimizers()) {
    INFO(zrt::testing::kind_of(*optimizer));
    Setting s = setting(optimizer, core::DType::f32, 2, 1, 3, 1);
    states.push_back(run(model_of(false), s).state);
  }
  std::sort(states.begin(), states.end());
  CHECK(std::unique(states.begin(), states.end()) == states.end());
}

TEST_CASE("accumulation and ranks agree in fp32 under every optimizer whose updates are no signs") {
  for (const OptimizerPtr& optimizer : smooth_optimizers()) {
    INFO(zrt::testing::kind_of(*optimizer));
    const models::Model model = model_of(false);
    Setting s = setting(optimizer, core::DType::f32, 1, 4, 0, 0);
    s.steps = 10;
    const Outcome reference = run(model, s);
    s.ranks = 4, s.accumulation = s.reduce_every = 1, s.stage = 3;
    CHECK(relative_l2(run(model, s).weights, reference.weights) < 1e-5);
  }
}

namespace {

// The weights of a run, by parameter; they come unit by unit.
std::map<std::string, std::vector<float>> by_parameter(const models::Model& model, const Setting& s) {
  const std::vector<float> all = run(model, s).weights;
  std::map<std::string, std::vector<float>> weights;
  auto at = all.begin();
  const runtime::Layout layout = make_layout(model, s);
  for (const optimizer::Unit& unit : layout.units.units) {
    for (const optimizer::UnitParam& place : unit.params) {
      weights[place.param->name].assign(at, at + place.param->elements());
      at += place.param->elements();
    }
  }
  return weights;
}

}  // namespace

TEST_CASE("groups with the decay and the rate of the rest change no bit") {
  unsigned choice = 0;
  for (const OptimizerPtr& optimizer : optimizers()) {
    INFO(zrt::testing::kind_of(*optimizer));
    for (int stage : {0, 3}) {
      for (core::DType type : {core::DType::f32, core::DType::bf16}) {
        const models::Model model = model_of(++choice % 2 == 0);
        const Outcome plain = run(model, setting(optimizer, type, 2, 2, stage, choice % 8));
        const OptimizerPtr grouped =
            optimizer::make_grouped(optimizer, {{{"*.bias"}, {}, 1}, {{"linear.1.*", "embed*"}, {}, 1}});
        const Outcome outcome = run(model, setting(grouped, type, 2, 2, stage, choice % 8));
        CAPTURE(choice, stage, core::dtype_name(type));
        CHECK(outcome.state == plain.state);
        CHECK(outcome.losses == plain.losses);
        CHECK(outcome.measured == outcome.planned);
      }
    }
  }
}

TEST_CASE("a step gives each parameter the bits of a run with the decay and the rate of its group") {
  unsigned choice = 0;
  for (const OptimizerPtr& optimizer : optimizers()) {
    INFO(zrt::testing::kind_of(*optimizer));
    for (int stage : {1, 3}) {
      const models::Model model = model_of(++choice % 2 == 0);
      const auto weights = [&](const OptimizerPtr& with) {
        Setting s = setting(with, core::DType::f32, 3, 1, stage, choice % 8);
        s.steps = 1;
        return by_parameter(model, s);
      };
      const auto rest = weights(optimizer), other = weights(optimizer->regrouped(0.25, 0.5));
      const auto mixed = weights(optimizer::make_grouped(optimizer, {{{"*.bias", "embed*"}, 0.25, 0.5}}));
      CHECK(mixed.size() == rest.size());
      for (const auto& [name, values] : mixed) {
        CAPTURE(choice, stage, name);
        const bool own = name.ends_with(".bias") || name.starts_with("embed");
        CHECK(values == (own ? other : rest).at(name));
        CHECK(rest.at(name) != other.at(name));
      }
    }
  }
}

TEST_CASE("a step gives each parameter the bits of a run with the optimizer of its group alone") {
  const std::vector<OptimizerPtr> all = optimizers();
  for (size_t first = 0; first < all.size(); ++first) {
    const OptimizerPtr &one = all[first], &two = all[(first + 1) % all.size()];
    INFO(zrt::testing::kind_of(*one) << " beside " << zrt::testing::kind_of(*two));
    for (int stage : {1, 3}) {
      const auto choice = static_cast<unsigned>(first + static_cast<size_t>(stage));
      const models::Model model = model_of(choice % 2 == 0);
      const auto weights = [&](const OptimizerPtr& with) {
        Setting s = setting(with, core::DType::f32, 3, 1, stage, choice % 8);
        s.steps = 1;
        return by_parameter(model, s);
      };
      const auto rest = weights(one), other = weights(two);
      const auto mixed = weights(optimizer::make_grouped(one, {{{"*.bias", "embed*"}, {}, 1, two}}));
      CHECK(mixed.size() == rest.size());
      for (const auto& [name, values] : mixed) {
        CAPTURE(choice, stage, name);
        const bool own = name.ends_with(".bias") || name.starts_with("embed");
        CHECK(values == (own ? other : rest).at(name));
      }
    }
  }
}

TEST_CASE("states take the bytes per parameter that the optimizer declares, divided as the stage says") {
  const models::Model model = make_toy(5, 24, 40, 4, false, false);
  for (int ranks : {1, 2, 4}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (core::DType type : {core::DType::f32, core::DType::bf16}) {
        const auto bytes = [&](const OptimizerPtr& optimizer, Category category) {
          Setting s = setting(optimizer, type, ranks, 1, stage, 0);
          const auto plan = runtime::compile(make_layout(model, s), {"init", "step", "export"}).plan;
          return plan.device().model_states[static_cast<size_t>(category)];
        };
        uint64_t padded = 0;
        for (const auto& unit : optimizer::make_units(model, ranks, 100000).units) {
          padded += static_cast<uint64_t>(unit.elements);
        }
        const uint64_t share = stage == 0 ? padded : padded / static_cast<uint64_t>(ranks);
        CAPTURE(ranks, stage, core::dtype_name(type));
        const uint64_t master = type == core::DType::f32 ? 0 : 4 * share;
        for (const OptimizerPtr& optimizer : optimizers()) CHECK(bytes(optimizer, Category::master) == master);
        CHECK(bytes(make_optimizer(optimizer::SgdParams{}), Category::moment1) == 0);
        CHECK(bytes(make_optimizer(optimizer::SgdParams{}), Category::moment2) == 0);
        CHECK(bytes(make_optimizer(optimizer::SgdParams{0.9f}), Category::moment1) == 4 * share);
        CHECK(bytes(make_optimizer(optimizer::SgdParams{0.9f}), Category::moment2) == 0);
        CHECK(bytes(make_optimizer(optimizer::LionParams{}), Category::moment1) == 4 * share);
        CHECK(bytes(make_optimizer(optimizer::LionParams{}), Category::moment2) == 0);
        CHECK(bytes(make_optimizer(optimizer::AdamParams{}), Category::moment1) == 4 * share);
        CHECK(bytes(make_optimizer(optimizer::AdamParams{}), Category::moment2) == 4 * share);
        // Rows and columns of embedding, head and five weights, and five biases; every rank holds all of them.
        const uint64_t statistics = 4 * (2 * (40 + 24) + 5 * (24 + 24) + 5 * 24);
        CHECK(bytes(adafactor(false, true), Category::moment1) == 0);
        CHECK(bytes(adafactor(false, true), Category::moment2) == statistics);
        CHECK(bytes(adafactor(true, true), Category::moment1) == 4 * share);
        CHECK(bytes(adafactor(true, true), Category::moment2) == statistics);
      }
    }
  }
}

TEST_CASE("what Adafactor's ranks share is counted, and equals its closed form") {
  const models::Model model = model_of(false);
  for (int ranks : {1, 2, 4}) {
    for (int stage : {0, 3}) {
      const Setting s = setting(adafactor(false, true), core::DType::f32, ranks, 2, stage, 1);
      const Outcome outcome = run(model, s);
      const auto found = outcome.comm.find(OpKind::share_sums);
      REQUIRE(found != outcome.comm.end());
      CHECK(found->second.bytes == 3 * outcome.forecast.share_sums);
      // Per rank and step: 48 bytes per parameter and round, 24 per row and column of a matrix and element of a vector.
      const uint64_t parameters = 2 + 2 * 3, sums = 2 * (17 + 12) + 3 * (12 + 12) + 3 * 12;
      CHECK(outcome.forecast.share_sums == (2 * 48 * parameters + 24 * sums) * static_cast<uint64_t>(ranks - 1));
    }
  }
}

TEST_CASE("the verifier refuses a step whose sums are missing, out of order or after the update") {
  const models::Model model = model_of(false);
  const Setting s = setting(adafactor(false, true), core::DType::f32, 2, 1, 2, 0);
  const runtime::Layout layout = make_layout(model, s);
  const runtime::Compiled compiled = runtime::compile(layout, {"init", "step"});
  const runtime::Program& good = compiled.set.program("step");
  const auto position = [&](OpKind kind, uint32_t round) {
    for (size_t i = 0; i < good.ops.size(); ++i) {
      if (good.ops[i].kind == kind && good.ops[i].round == round) return i;
    }
    throw core::ProgramError("no such op");
  };
  const auto orders = runtime::verification::part_orders(layout);
  CHECK_NOTHROW(runtime::verification::check_step(good, layout, orders));
  const auto refuses = [&](const std::function<void(std::vector<runtime::Op>&)>& fault, const std::string& message) {
    runtime::Program bad = good;
    fault(bad.ops);
    CHECK_THROWS_WITH(runtime::verification::check_step(bad, layout, orders), Catch::Contains(message));
  };
  using Ops = std::vector<runtime::Op>;
  const size_t sum0 = position(OpKind::sum, 0), share0 = position(OpKind::share_sums, 0),
               fold0 = position(OpKind::fold, 0), share1 = position(OpKind::share_sums, 1),
               fold1 = position(OpKind::fold, 1), update = position(OpKind::update, 0);
  refuses([&](Ops& ops) { std::swap(ops[sum0], ops[share0]); }, "out of order");
  refuses([&](Ops& ops) { std::swap(ops[fold0], ops[fold1]); }, "out of order");
  refuses([&](Ops& ops) { ops[share1] = ops[share0]; }, "out of order");
  refuses([&](Ops& ops) { ops[sum0].round = 1; }, "out of order");
  refuses([&](Ops& ops) { std::swap(ops[fold1], ops[update]); }, "comes before the 'fold'");
}

}  // namespace zrt::optimizers_test

// States of fewer bytes in whole programs: the same bits whatever the layout, and the bytes that docs/memory.md says.
#include "catch.h"
#include "optimizer/groups.h"
#include "optimizer/muon_rule.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"

namespace zrt::forms_test {

using namespace zrt;
using namespace zrt::testing;
using core::Category;
using optimizer::Moments;

namespace {

struct Forms {
  Moments moments;
  bool master;
  core::DType compute;
};
constexpr Forms all_forms[] = {{Moments::bf16, true, core::DType::bf16},  {Moments::int8, true, core::DType::bf16},
                               {Moments::f32, false, core::DType::bf16},  {Moments::bf16, false, core::DType::bf16},
                               {Moments::int8, false, core::DType::bf16}, {Moments::bf16, true, core::DType::f32},
                               {Moments::int8, true, core::DType::f32},   {Moments::int8, true, core::DType::f16}};

optimizer::OptimizerPtr adam(Moments moments) {
  return make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f, true, true, moments});
}
optimizer::OptimizerPtr muon(Moments moments) {
  return make_split(adam(moments), make_optimizer(optimizer::MuonParams{.weight_decay = 0.1f, .moments = moments}),
                    [](const models::Param& param, bool hidden) { return hidden && param.shape.size() == 2; });
}
optimizer::OptimizerPtr optimizer_of(unsigned turn, Moments moments) {
  switch (turn % 4) {
    case 0:
      return adam(moments);
    case 1:
      return muon(moments);
    case 2:
      return make_optimizer(optimizer::LionParams{0.9f, 0.99f, 0.1f, moments});
    default:
      return make_optimizer(optimizer::SgdParams{0.9f, 0, 0.01f, true, moments});
  }
}

Setting setting(const Forms& forms, int ranks, int stage, unsigned which = 0) {
  Setting s;
  s.optimizer = optimizer_of(which, forms.moments);
  s.master = forms.master, s.compute = forms.compute;
  s.ranks = ranks, s.stage = stage, s.steps = 3;
  s.loss_scale.initial = forms.compute == core::DType::f16 ? 128 : 1;
  return s;
}

// Parameters of less than a block, and of one and a half.
models::Model model_of(bool tied) {
  return make_toy(2, 40, 83, 5, tied, false);
}

}  // namespace

TEST_CASE("stage, unit size, overlap, persistence and lanes do not change a bit with states of any form") {
  unsigned turn = 0;
  for (const Forms& forms : all_forms) {
    for (const int ranks : {1, 2, 3}) {
      const models::Model model = model_of(++turn % 2 == 0);
      Setting s = setting(forms, ranks, 0, turn / 2);
      s.accumulation = s.reduce_every = turn % 3 == 0 ? 2 : 1;
      const Outcome reference = run(model, s);
      for (int stage = 0; stage < 4; ++stage) {
        for (unsigned choice = 0; choice < (full_tests() ? 8u : 2u); ++choice) {
          const unsigned bits = full_tests() ? choice : (turn + static_cast<unsigned>(stage) * 3 + choice * 5) % 8;
          s.stage = stage;
          s.unit_elements = bits & 1 ? 100 : 9000;
          s.bucket = 2 * s.unit_elements;
          s.overlap = bits & 2, s.serialize = bits & 4;
          s.persistence = stage == 3 && (bits & 1) ? 100 : 0;
          const Outcome outcome = run(model, s);
          CAPTURE(static_cast<int>(forms.moments), forms.master, core::dtype_name(forms.compute), ranks, stage, bits,
                  turn);
          CHECK(outcome.state == reference.state);
          CHECK(outcome.losses == reference.losses);
          CHECK(outcome.measured == outcome.planned);
        }
      }
    }
  }
}

TEST_CASE("groups with equal shards and secondary shards give the same bits with states of any form") {
  const models::Model model = model_of(false);
  for (const Forms& forms : {all_forms[1], all_forms[4]}) {
    Setting s = setting(forms, 4, 3);
    s.groups = {2, true, true, false};
    const std::string hierarchical = run(model, s).state;
    s.unit_elements = 100;
    CHECK(run(model, s).state == hierarchical);
    s.groups = {2, false, false, true};
    const std::string replicated = run(model, s).state;
    s.unit_elements = 9000, s.overlap = true;
    CHECK(run(model, s).state == replicated);
  }
}

TEST_CASE("every form has results of its own, and those near fp32's") {
  const models::Model model = model_of(false);
  for (unsigned which = 0; which < 4; ++which) {
    const Outcome exact = run(model, setting({Moments::f32, true, core::DType::bf16}, 2, 3, which));
    for (const Forms& forms : {all_forms[0], all_forms[1], all_forms[2], all_forms[4]}) {
      const Outcome outcome = run(model, setting(forms, 2, 3, which));
      const double off = relative_l2(outcome.weights, exact.weights);
      CAPTURE(static_cast<int>(forms.moments), forms.master, which, off);
      const bool signs_alone = which == 2 && forms.moments == Moments::bf16 && forms.master;  // Lion's, which may agree
      CHECK((signs_alone || outcome.state != exact.state));
      CHECK(off < 0.02);
    }
  }
}

TEST_CASE("the seed chooses how weights without a master are rounded") {
  const models::Model model = make_toy(2, 40, 83, 5, false, false);
  Setting s = setting(all_forms[2], 2, 2);
  const std::string state = run(model, s).state;
  s.seed = 8;
  CHECK(run(model, s).state != state);
}

TEST_CASE("bytes per parameter are those of docs/memory.md, divided as the stage says") {
  const models::Model model = model_of(false);
  unsigned turn = 0;
  for (const Forms& forms : all_forms) {
    for (const int ranks : {1, 2, 4}) {
      for (int stage = 0; stage < 4; ++stage) {
        const Setting s = setting(forms, ranks, stage, ++turn);
        const runtime::Layout layout = make_layout(model, s);
        const auto states = runtime::compile(layout, {"init", "step", "export"}).plan.device().model_states;
        uint64_t padded = 0, of_adam = 0;
        for (const auto& unit : layout.units.units) {
          padded += static_cast<uint64_t>(unit.elements);
          if (layout.optimizer->states(unit).size() == 2) of_adam += static_cast<uint64_t>(unit.elements);
        }
        const auto part = [&](int first_stage, uint64_t of) {
          return stage >= first_stage ? of / static_cast<uint64_t>(ranks) : of;
        };
        const auto bytes = [&](Category category) { return states[static_cast<size_t>(category)]; };
        const auto moment = [&](uint64_t elements) {
          return forms.moments == Moments::int8   ? elements + elements * 4 / 2048
                 : forms.moments == Moments::bf16 ? 2 * elements
                                                  : 4 * elements;
        };
        const uint64_t width = core::dtype_size(forms.compute);
        CAPTURE(static_cast<int>(forms.moments), forms.master, core::dtype_name(forms.compute), ranks, stage, turn);
        CHECK(bytes(Category::weights) == width * part(3, padded));
        CHECK(bytes(Category::grads) == width * part(2, padded));
        CHECK(bytes(Category::master) == (forms.master && width == 2 ? 4 * part(1, padded) : 0));
        CHECK(bytes(Category::moment1) == moment(part(1, padded)));
        CHECK(bytes(Category::moment2) == moment(part(1, of_adam)));
      }
    }
  }
}

TEST_CASE("the tier that states of any form live in, and where they are updated, do not change a bit") {
  unsigned number = 0;
  for (const NamedPlacing& placing : placings()) {
    for (int step = 0; step < (full_tests() ? 8 : 2); ++step, ++number) {
      const Forms& forms = all_forms[number % 8];
      Setting s =
          setting(forms, 1 + static_cast<int>(number % 3), static_cast<int>(number * 5 % 4), number / 2 + number / 8);
      s.unit_elements = number % 2 ? 100 : 9000, s.bucket = 2 * s.unit_elements;
      const models::Model model = model_of(number % 3 == 1);
      const Outcome reference = run(model, s);
      s.placement = with_exchanges_on_the_device(placing.place);
      const Outcome outcome = run(model, s);
      CAPTURE(placing.name, static_cast<int>(forms.moments), forms.master, core::dtype_name(forms.compute), s.ranks,
              s.stage);
      CHECK(outcome.state == reference.state);
      CHECK(outcome.losses == reference.losses);
      CHECK(outcome.measured == outcome.planned);
      CHECK(outcome.measured_behind[0] == outcome.planned_behind[0]);
      CHECK(outcome.measured_behind[1] <= outcome.planned_behind[1]);
    }
  }
}

}  // namespace zrt::forms_test

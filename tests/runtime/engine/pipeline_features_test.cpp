// Optimizers, forms of states, groups of ranks, ways of updating and of keeping weights inside the stages of a
// pipeline: the bits of the same run without a pipeline.
#include <map>
#include <tuple>

#include "catch.h"
#include "optimizer/groups.h"
#include "optimizer/muon_rule.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"

namespace zrt::pipeline_features_test {

using namespace zrt;
using namespace zrt::testing;
using optimizer::Moments;
using optimizer::OptimizerPtr;
using runtime::GatheredFor;
using runtime::ScheduleKind;

namespace {

OptimizerPtr adam(Moments moments) {
  return make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f, true, true, moments});
}

// Rules that work on elements, on rows and columns, on whole matrices, and several side by side.
OptimizerPtr optimizer_of(size_t number, Moments moments) {
  const OptimizerPtr lion = make_optimizer(optimizer::LionParams{0.9f, 0.99f, 0.1f, moments});
  if (number == 0) return adam(moments);
  if (number == 1) return lion;
  if (number == 2) return make_optimizer(optimizer::SgdParams{0.9f, 0, 0.01f, true, moments});
  if (number == 3) return make_optimizer(optimizer::AdafactorParams{});
  if (number == 4) return make_grouped(adam(moments), {{{"*.bias"}, {}, 1, lion}, {{"h.1.*"}, 0.0, 2, nullptr}});
  return make_split(adam(moments), make_optimizer(optimizer::MuonParams{.weight_decay = 0.1f, .moments = moments}),
                    [](const models::Param& param, bool hidden) { return hidden && param.shape.size() == 2; });
}

struct Feature {
  int ranks;
  Islands groups;
  bool only_stage_3 = false;
  int64_t persistence = 0;
  bool early = false, host = false, late = false;
};
const std::array features{Feature{2, {}},
                          Feature{4, {2, true, false, false}},
                          Feature{4, {2, false, true, false}, true},
                          Feature{4, {2, false, false, true}, true},
                          Feature{2, {}, true, 200},
                          Feature{2, {}, false, 0, true},
                          Feature{2, {}, false, 0, false, true},
                          Feature{2, {}, false, 0, false, false, true},
                          Feature{4, {2, true, false, false}, false, 0, false, true, true}};

struct Form {
  core::DType compute;
  bool master;
  Moments moments;
};
constexpr std::array forms{Form{core::DType::f32, true, Moments::f32}, Form{core::DType::bf16, true, Moments::int8},
                           Form{core::DType::bf16, false, Moments::bf16}};

}  // namespace

// All with ZRT_FULL_TESTS; else one in 17, a prime.
TEST_CASE("every optimizer, form, group of ranks and way to update has in a pipeline the bits it has without") {
  const models::Model model = models::make_gpt2(
      {.layers = 4, .hidden = 32, .heads = 2, .sequence = 12, .vocab = 61, .dropout = 0.1f, .tied = false});
  std::map<std::tuple<size_t, size_t, size_t, int>, std::string> references;
  unsigned turn = 0;
  for (size_t o = 0; o < 6; ++o) {
    for (size_t f = 0; f < features.size(); ++f) {
      for (size_t form = 0; form < forms.size(); ++form) {
        for (int stage = 0; stage < 4; ++stage) {
          for (const int stages : {2, 3}) {
            const Feature& feature = features[f];
            if (feature.only_stage_3 && stage < 3) continue;
            if (o == 3 && (!forms[form].master || feature.early)) continue;  // Adafactor: fp32, and behind the norm
            if (!full_tests() && ++turn % 17 != 0) continue;
            Setting s;
            s.optimizer = optimizer_of(o, forms[form].moments);
            s.compute = forms[form].compute, s.master = forms[form].master;
            s.stage = stage, s.ranks = feature.ranks, s.groups = feature.groups, s.persistence = feature.persistence;
            s.accumulation = 4, s.reduce_every = 2, s.micro_batch = 1, s.steps = 3;
            s.unit_elements = 2000;
            s.early_updates = feature.early, s.late_updates = feature.late;
            if (feature.early) s.clip = 0;
            if (feature.host) {
              s.placement = with_exchanges_on_the_device([](const runtime::Layout& layout) {
                using core::Tier;
                return uniform(layout, Tier::device, Tier::host, Tier::host, Tier::host, Tier::host, Tier::host);
              });
            }
            CAPTURE(o, f, form, stage, stages, turn);
            std::string& expected = references[{o, f, form, stage}];
            if (expected.empty()) expected = run(model, s).state;
            s.overlap = turn % 2 == 0;
            s.gathered_for = std::array{GatheredFor::use, GatheredFor::run, GatheredFor::step}[turn % 3];
            const Outcome outcome =
                run_pipeline(model, s, turn % 5 < 2 ? ScheduleKind::gpipe : ScheduleKind::one_f_one_b, stages);
            CHECK(outcome.state == expected);
            CHECK(outcome.measured == outcome.planned);
            CHECK(outcome.measured_behind == outcome.planned_behind);
          }
        }
      }
    }
  }
}

}  // namespace zrt::pipeline_features_test

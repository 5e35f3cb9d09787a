// BERT in both arrangements: the same bits whatever the stage, unit sizes, overlap, placement, recomputation and update
// timing, in pipelines, and behind a checkpoint.
#include "models/bert/bert.h"

#include "tests/runtime/engine/model_invariance.h"
#include "tests/runtime/engine/model_sweep.h"
#include "tests/runtime/pipeline.h"

namespace zrt::bert_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Recompute;
using runtime::ScheduleKind;

namespace {

models::Model tiny(bool pre_norm, float dropout, bool tied = true, int64_t layers = 2) {
  models::BertConfig config{.layers = layers, .hidden = 48, .heads = 4, .sequence = 24, .vocab = 61};
  config.masking.cls = 58, config.masking.separator = 59, config.masking.mask = 60;
  config.masking.sentence_order = true;
  config.dropout = dropout, config.pre_norm = pre_norm, config.tied = tied;
  return models::make_bert(config);
}

std::vector<EqualRuns> groups() {
  constexpr auto f32 = core::DType::f32, bf16 = core::DType::bf16, f16 = core::DType::f16;
  if (full_tests()) return all_groups({0.0f, 0.1f});
  return {{bf16, 0.1f, 4, 2, 2, true}, {f32, 0, 1, 1, 3, false}, {f16, 0.1f, 2, 2, 2, true}};
}

}  // namespace

TEST_CASE("BERT's weights after 20 steps are the same bits whatever the stage, unit and bucket sizes") {
  const bool pre_norm = GENERATE(false, true);
  check_invariance(groups(), [&](const EqualRuns& group) { return tiny(pre_norm, group.dropout, group.tied); });
}

TEST_CASE("A serialized run of BERT holds exactly the live bytes the plan says, category by category") {
  const bool pre_norm = GENERATE(false, true);
  check_live_bytes(0.1f, [&](const EqualRuns& group) { return tiny(pre_norm, group.dropout, group.tied); });
}

TEST_CASE("Wherever BERT's states are, whatever it computes again and whenever it updates, its bits are the same") {
  for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
    check_placements(tiny(type == core::DType::bf16, 0.1f), type);
  }
}

TEST_CASE("BERT has the same bits in a pipeline and without one") {
  for (const bool pre_norm : {false, true}) {
    for (const core::DType type : {core::DType::f32, core::DType::bf16}) {
      const models::Model model = tiny(pre_norm, 0.1f, false, 4);
      Setting s;
      s.accumulation = s.reduce_every = 4, s.micro_batch = 1, s.steps = 2, s.compute = type;
      const Outcome plain = run(model, s);
      for (const ScheduleKind kind :
           {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1}) {
        for (const Recompute how : {Recompute::never, Recompute::none, Recompute::selective, Recompute::full}) {
          s.stage = static_cast<int>(kind) % 4, s.recompute = {how};
          const Outcome outcome = run_pipeline(model, s, kind, 2, kind == ScheduleKind::interleaved ? 2 : 1);
          CAPTURE(pre_norm, core::dtype_name(type), static_cast<int>(kind), static_cast<int>(how));
          CHECK(outcome.state == plain.state);
          CHECK(outcome.losses == plain.losses);
          CHECK(outcome.planned == outcome.measured);
        }
      }
    }
  }
}

TEST_CASE("BERT goes on from a checkpoint with the bits of a run that did not stop, and loads on other ranks") {
  check_resume(tiny(GENERATE(false, true), 0.1f));
}

}  // namespace zrt::bert_test

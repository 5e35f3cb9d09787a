// Layers that share their parameters train the same on meshes: on tensor-parallel ranks and in pipelines, whose stages
// share them with their neighbours.
#include "catch.h"
#include "tests/runtime/engine/shared_runs.h"
#include "tests/runtime/pipeline.h"

namespace zrt::pseudo_meshes_test {

using namespace zrt;
using namespace zrt::testing;
using Catch::Matchers::Contains;
using models::Sharing;
using runtime::ScheduleKind;

TEST_CASE("tensor-parallel ranks train shared layers as one rank does") {
  Setting one = plain();
  one.ranks = 1, one.micro_batch = 4;
  const Outcome alone = run(shared(ModelType::llama, one), one);
  for (const bool rows : {false, true}) {
    for (const int stage : {0, 3}) {
      Setting s = one;
      s.tensor = 2, s.rows = rows, s.stage = stage;
      CHECK(relative_l2(run(shared(ModelType::llama, s), s).weights, alone.weights) < 1e-5);
    }
  }
}

TEST_CASE("stages of a pipeline that share layers train as one stage does, with the same bits at every stage of ZeRO") {
  Setting one = plain();
  one.ranks = 1, one.micro_batch = 4, one.reduce_every = 1, one.accumulation = 4;
  struct Case {
    ScheduleKind kind;
    int stages, chunks;
    Sharing sharing;
  };
  const Sharing all{{4}, {"*ln_*", "*norm*"}}, none_private{{4}, {}};
  const Case cases[]{{ScheduleKind::one_f_one_b, 2, 1, all}, {ScheduleKind::one_f_one_b, 4, 1, none_private},
                     {ScheduleKind::gpipe, 2, 1, by_two},    {ScheduleKind::gpipe, 4, 1, by_two},
                     {ScheduleKind::zb_h1, 2, 1, all},       {ScheduleKind::interleaved, 2, 2, all}};
  for (const ModelType type : {ModelType::gpt2, ModelType::llama}) {
    for (const Case& c : cases) {
      const Outcome alone = run(shared(type, one, c.sharing), one);
      std::string state;
      for (const int stage : {0, 1, 3}) {
        Setting s = one;
        s.stage = stage, s.ranks = 2, s.micro_batch = 2, s.overlap = stage == 3;
        CAPTURE(static_cast<int>(type), static_cast<int>(c.kind), c.stages, stage);
        s.schedule.kind = c.kind, s.schedule.stages = c.stages, s.schedule.chunks = c.chunks;
        s.schedule.group = c.chunks > 1 ? c.stages : 1;
        // The embedding goes with the first layer, and the head with the last one.
        const std::vector<size_t> ends =
            c.stages * c.chunks == 2 ? std::vector<size_t>{3, 6} : std::vector<size_t>{2, 3, 4, 6};
        const Outcome piped = run_stages(Pipeline(shared(type, s, c.sharing), s, ends).compile(s), s);
        CHECK(relative_l2(piped.weights, alone.weights) < 1e-5);
        CHECK(std::abs(piped.losses[0] - alone.losses[0]) < 1e-6);
        CHECK(std::abs(piped.norms[0] - alone.norms[0]) < 1e-6 * alone.norms[0]);
        CHECK(piped.planned == piped.measured);
        if (!state.empty()) CHECK(piped.state == state);
        state = piped.state;
      }
    }
  }
}

TEST_CASE("stages that share layers with others than their neighbours are refused") {
  Setting s = plain();
  s.reduce_every = 1, s.schedule.stages = 4;
  const models::Model model = shared(ModelType::gpt2, s, {{1, 2, 1}, {}});
  CHECK_THROWS_WITH(Pipeline(model, s, {2, 3, 4, 6}), Contains("must divide the pipeline into equal parts"));
}

}  // namespace zrt::pseudo_meshes_test

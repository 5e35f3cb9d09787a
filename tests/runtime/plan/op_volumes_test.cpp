// The planner says what each op receives; communicators of a run count it. The two are compared op by op.
#include "catch.h"
#include "models/model.h"
#include "runtime/plan/comm_bytes.h"
#include "tests/runtime/pipeline.h"

namespace zrt::op_volumes_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::OpKind;

namespace {

struct Case {
  std::string name;
  int data = 1, tensor = 1, expert = 1, stages = 1, stage = 1;
  bool rows = false;
  Islands groups = {};
};

models::Model model_of(const Case& c) {
  models::LlamaConfig config;
  config.layers = 2, config.hidden = 32, config.heads = 4, config.kv_heads = 2, config.ffn = 48;
  config.sequence = 16, config.vocab = 64, config.tied = false;
  config.degrees = {c.tensor, c.rows, c.expert};
  if (c.expert > 1) config.experts = {.number = 4, .ffn = 24, .top_k = 2, .capacity_factor = 1.5};
  return models::make_llama(config);
}

}  // namespace

TEST_CASE("every op receives what the planner says, by the counters of its communicator") {
  const std::vector<Case> cases{{.name = "data, stage 0", .data = 4, .stage = 0},
                                {.name = "data, stage 3", .data = 4, .stage = 3},
                                {.name = "two levels", .data = 4, .stage = 3, .groups = {2, true}},
                                {.name = "tensor", .data = 2, .tensor = 2},
                                {.name = "tensor with shared rows", .data = 2, .tensor = 2, .rows = true},
                                {.name = "pipeline", .data = 2, .stages = 2, .stage = 2},
                                {.name = "tensor and pipeline", .tensor = 2, .stages = 2, .rows = true},
                                {.name = "experts", .data = 4, .expert = 2, .stage = 2},
                                {.name = "experts and tensor", .data = 2, .tensor = 2, .expert = 2, .stage = 3}};
  for (const Case& c : cases) {
    CAPTURE(c.name);
    Setting s;
    s.ranks = c.data, s.tensor = c.tensor, s.expert = c.expert, s.stage = c.stage, s.rows = c.rows, s.groups = c.groups;
    s.accumulation = 4, s.unit_elements = 700, s.bucket = 1500, s.compute = core::DType::bf16, s.overlap = true;
    s.schedule.kind = runtime::ScheduleKind::one_f_one_b, s.schedule.stages = c.stages;
    const models::Model model = model_of(c);
    const Pipeline pipeline(model, s, even_ends(model, c.stages));
    const std::vector<runtime::Layout>& layouts = pipeline.layouts;
    runtime::Session session(pipeline.compile({"init", "step"}), session_options(s),
                             {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                                synthetic_batch(layouts.front(), 0, rank, microbatch, to);
                              },
                              {}});
    session.run("init", {});
    for (int r = 0; r < session.local_count(); ++r) session.executor(r).set_tracing(true);
    session.run("step", {s.seed, 0, 0, {s.rate}});
    std::map<OpKind, size_t> seen;
    for (int r = 0; r < session.local_count(); ++r) {
      const runtime::Compiled& stage = session.stage(r);
      for (const runtime::TraceEvent& event : session.executor(r).trace()) {
        const runtime::Op& op = event.program->ops[event.op];
        if (stage.set.lanes[op.lane].kind != runtime::LaneKind::comm || stage.set.group(op).ranks.size == 1) continue;
        CAPTURE(r, op.name, event.iteration);
        CHECK(event.received_bytes == runtime::received_bytes(stage.set, op, stage.layout));
        ++seen[op.kind];
      }
    }
    CHECK(seen[OpKind::share_control] > 0);
    if (c.data > 1) CHECK(seen[OpKind::reduce_grad] > 0);
    if (c.tensor > 1 || c.expert > 1) CHECK(seen[OpKind::exchange] > 0);
    if (c.stages > 1) CHECK(seen[OpKind::receive] > 0);
    if (c.data > 1 && c.stage > 0) CHECK(seen[OpKind::gather] > 0);
    if (c.data > 1 && c.stage == 0) CHECK(seen[OpKind::gather_grad] > 0);
  }
}

}  // namespace zrt::op_volumes_test

// Programs of experts that are spread over ranks, broken; and the faults that such training is known for: a norm that
// is the mean of the ranks' instead of their sum's root, a balance that counts padding, a router without its gradient.
#include <cmath>

#include "catch.h"
#include "core/error.h"
#include "models/kernels/experts.h"
#include "runtime/ops/decide.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::expert_faults_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Op;
using runtime::OpKind;

namespace {

models::Model model_with(double capacity) {
  models::LlamaConfig config;
  config.layers = 2, config.hidden = 16, config.heads = 2, config.ffn = 24, config.sequence = 6, config.vocab = 31;
  config.degrees.expert = 2, config.experts = {.number = 4, .ffn = 8, .top_k = 2, .capacity_factor = capacity};
  return models::make_llama(config);
}

struct Programs {
  models::Model model;
  runtime::Layout layout;
  runtime::ProgramSet set;

  explicit Programs(double capacity) : model(model_with(capacity)) {
    Setting s;
    s.ranks = 4, s.expert = 2, s.stage = 3, s.unit_elements = 200;
    layout = make_layout(model, s);
    set = runtime::compile(layout, {"init", "step", "export"}).set;
  }
  std::string verdict(const runtime::ProgramSet& broken) const {
    try {
      runtime::verify(broken, layout);
    } catch (const core::ProgramError& error) {
      return error.what();
    }
    return "";
  }
};

}  // namespace

TEST_CASE("messages that are exchanged without what says which rows are used are refused") {
  const Programs programs(0);
  REQUIRE(programs.verdict(programs.set).empty());
  const auto& ops = programs.set.program("step").ops;
  size_t measured = 0;
  for (size_t id = 0; id < ops.size(); ++id) {
    if (ops[id].kind != OpKind::exchange || ops[id].accesses.size() != 2) continue;
    ++measured;
    runtime::ProgramSet broken = programs.set;
    std::vector<runtime::Access>& accesses = program_of(broken, "step").ops[id].accesses;
    accesses.pop_back();
    CHECK(programs.verdict(broken).find("names 1 buffers") != std::string::npos);
    // Another port's numbers say something else.
    broken = programs.set;
    const auto other = std::find_if(ops.begin(), ops.end(), [&](const Op& op) {
      return op.kind == OpKind::exchange && op.port != ops[id].accesses[1].port && op.port != ops[id].port;
    });
    program_of(broken, "step").ops[id].accesses[1].port = other->port;
    CHECK(programs.verdict(broken).find(ops[id].name) != std::string::npos);
  }
  CHECK(measured == 2 * 4);
  // With a capacity messages move whole.
  const Programs whole(1);
  for (const Op& op : whole.set.program("step").ops) {
    CHECK((op.kind != OpKind::exchange || op.accesses.size() == 1));
  }
}

TEST_CASE("an export that tells of one rank's experts in the turns of all is refused") {
  const Programs programs(1);
  const auto& segments = programs.set.program("export").segments;
  size_t turns = 0;
  for (size_t s = 1; s < segments.size(); ++s) {
    if (segments[s].repeat == 1) continue;
    ++turns;
    REQUIRE(segments[s].count == 2);
    REQUIRE(segments[s].repeat == 2);
    runtime::ProgramSet broken = programs.set;
    std::vector<runtime::Segment>& all = program_of(broken, "export").segments;
    // Parts come together once, in front of the turns.
    ++all[s - 1].count, ++all[s].first, --all[s].count;
    CHECK(programs.verdict(broken).find("export") != std::string::npos);
  }
  CHECK(turns > 0);
}

TEST_CASE("the squared norms 20 and 100 of two ranks' experts make the norm √120, which is not their mean") {
  runtime::ControlShare shares[2];
  const float small[] = {2, 4}, large[] = {6, 8};  // squares: 20 and 100
  for (int r = 0; r < 2; ++r) {
    for (const float value : r == 0 ? small : large)
      shares[r].norm.add(static_cast<double>(value) * static_cast<double>(value));
  }
  runtime::Control control;
  control.persistent.loss_scale.scale = 1;
  runtime::DecideRules rules;
  rules.mesh = core::Mesh(2, 1, 1, 1, 2), rules.ranks = 2;
  runtime::decide_step(shares, rules, control);
  CHECK(control.grad_norm == Approx(std::sqrt(120.0)).epsilon(1e-12));
}

TEST_CASE("the balance of a router does not change with slots that nobody fills") {
  const int64_t rows = 12, experts = 4;
  const auto balance = [&](int64_t capacity) {
    models::RoutingShape shape{.rows = rows, .experts = experts, .chosen = 1, .capacity = capacity};
    std::vector<float> logits(static_cast<size_t>(rows * experts)), logs(rows), gate(rows);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 7 % 5) * 0.3f;
    std::vector<int32_t> expert(rows), slot(rows), choice(static_cast<size_t>(shape.slots())), starts(experts),
        counts(experts), wanted(experts);
    models::route(shape, logits.data(), logs.data(), expert.data(), gate.data());
    models::give_slots(shape, expert.data(), {slot.data(), choice.data(), starts.data(), counts.data(), wanted.data()});
    std::vector<float> d_gate(rows), d_logits(logits.size());
    models::route_backward(core::DType::f32, shape,
                           {.probability = logits.data(),
                            .logs = logs.data(),
                            .gate = gate.data(),
                            .d_gate = d_gate.data(),
                            .expert = expert.data(),
                            .slot = slot.data(),
                            .wanted = wanted.data(),
                            .balance = 0.5,
                            .z = 0},
                           d_logits.data());
    return d_logits;
  };
  const std::vector<float> tight = balance(12), padded = balance(24), most = balance(0);
  CHECK(tight == padded);
  CHECK(tight == most);
  CHECK(std::any_of(tight.begin(), tight.end(), [](float d) { return d != 0; }));
}

// The loss does not show it: it is the gradient's exchange that is missing.
TEST_CASE("a step whose gates' gradients do not come back to the router is refused") {
  const Programs programs(1);
  const auto& ops = programs.set.program("step").ops;
  size_t found = 0;
  for (runtime::OpId id = 0; id < ops.size(); ++id) {
    if (ops[id].kind != OpKind::exchange || ops[id].name.find("gradient of gates") == std::string::npos) continue;
    ++found;
    runtime::ProgramSet broken = programs.set;
    runtime::Program& step = program_of(broken, "step");
    order_by_waits(step, id);
    drop_op(step, id);
    CHECK(programs.verdict(broken).find("an exchange is missing, by all-to-all") != std::string::npos);
  }
  CHECK(found == 2);
}

}  // namespace zrt::expert_faults_test

// Ops that start late at random: the order in which lanes and ranks meet changes, the weights do not, as long as every
// wait is there.
#include "catch.h"
#include "core/error.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::stress_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Op;
using runtime::OpId;
using runtime::OpKind;

namespace {

// Runs of the whole test; full_tests() asks for 200.
size_t runs() {
#ifdef __SANITIZE_THREAD__
  return 8;
#else
  return full_tests() ? 200 : 24;
#endif
}

struct Case {
  Setting setting;
  bool tied;
};

// Stages, overlap, ranks, windows and levels change from case to case with different periods.
Case nth_case(size_t n, core::DType type = core::DType::f32) {
  Setting s;
  s.steps = 2, s.unit_elements = 100, s.bucket = 300, s.compute = type;
  s.stage = static_cast<int>(n % 4);
  s.overlap = n / 4 % 2 == 0;
  s.ranks = std::array{2, 4, 3}[n % 3];
  s.accumulation = std::array<uint32_t, 3>{3, 4, 1}[n / 2 % 3];
  s.reduce_every = s.accumulation == 4 ? 2 : 1;
  if (s.ranks == 4 && n % 5 < 2) s.groups = {2, true};
  if (s.ranks == 4 && s.stage == 3 && n % 5 == 2) s.groups = {2, false, true};
  if (s.ranks == 4 && n % 5 == 3) s.groups = {2, false, false, true};
  if (s.stage == 3 && n % 2 == 1) s.persistence = 20;
  return {s, n % 7 < 3};
}

std::string text(const Case& c) {
  const Setting& s = c.setting;
  return "stage " + std::to_string(s.stage) + ", " + std::to_string(s.ranks) + " ranks, " +
         std::to_string(s.accumulation) + "/" + std::to_string(s.reduce_every) + (s.overlap ? ", overlap" : "") +
         (c.tied ? ", tied" : "") + ", groups of " + std::to_string(s.groups.inner);
}

void check_stressed(const models::Model& model, const Case& c, uint64_t seed) {
  Setting s = c.setting;
  s.serialize = true;
  const Outcome calm = run(model, s);
  s.serialize = false;
  s.stress_seed = seed;
  INFO(model.type << ", " << text(c) << ", run.stress_seed " << seed);
  const Outcome stressed = run(model, s);
  CHECK(stressed.state == calm.state);
  CHECK(stressed.losses == calm.losses);
  CHECK(stressed.norms == calm.norms);
  CHECK(stressed.planned == stressed.measured);
}

}  // namespace

TEST_CASE("random delays before every op change nothing in a toy") {
  for (size_t n = 0; n < runs() / 2; ++n) {
    const Case c = nth_case(n);
    check_stressed(make_toy(3, 12, 17, 5, c.tied, false), c, n + 1);
  }
}

TEST_CASE("random delays before every op change nothing in a small GPT-2") {
  for (size_t n = 0; n < runs() - runs() / 2; ++n) {
    const Case c = nth_case(n, n % 3 == 1 ? core::DType::bf16 : core::DType::f32);
    check_stressed(models::make_gpt2({2, 48, 2, 24, 61, 0.1f, c.tied}), c, n + 1);
  }
}

TEST_CASE("a stress seed delays ops, and without one nothing is delayed") {
  const models::Model model = make_toy(2, 12, 17, 5, false, false);
  Setting s = nth_case(0).setting;
  s.serialize = true, s.steps = 20, s.stress_seed = 5;
  const auto set = runtime::compile(make_layout(model, s), phases_of(s)).set;
  const runtime::Program& program = set.program("step");
  // A rank's ops run one after the other here, so its delays add up; they are several times what the run takes else.
  std::chrono::microseconds asked{0}, without{0};
  for (int run = 2; run < 2 + s.steps; ++run) {  // the first is "init"
    runtime::for_each_execution(program, UINT32_MAX, [&](OpId id, uint32_t iteration) {
      asked += runtime::stress_delay(5, static_cast<uint32_t>(run), 0, program.ops[id].lane, id, iteration);
      without += runtime::stress_delay(0, static_cast<uint32_t>(run), 0, program.ops[id].lane, id, iteration);
    });
  }
  CHECK(asked > std::chrono::microseconds(40) * s.steps * program.ops.size());
  CHECK(without.count() == 0);
  const auto start = std::chrono::steady_clock::now();
  run(model, s);
  CHECK(std::chrono::steady_clock::now() - start >= asked);
}

namespace {

// The wait whose absence lets a forward read weights that are still on their way.
std::pair<OpId, OpId> needed_wait(const runtime::Program& step) {
  for (OpId id = 0; id < step.ops.size(); ++id) {
    for (OpId wait : step.ops[id].waits) {
      if (step.ops[id].kind == OpKind::forward && step.ops[wait].kind == OpKind::gather) return {id, wait};
    }
  }
  throw std::runtime_error("no forward waits for a gather");
}

}  // namespace

TEST_CASE("without a wait that is needed the verifier names both ops, and random delays show it") {
  const models::Model model = make_toy(3, 12, 17, 5, false, false);
  for (const Case& c : {nth_case(3), nth_case(1)}) {
    Setting s = c.setting;
    s.overlap = true;
    const runtime::Layout layout = make_layout(model, s);
    const runtime::Compiled good = runtime::compile(layout, phases_of(s), {}, false);
    const std::string calm = run_compiled(good, s).state;
    runtime::Compiled bad = good;
    runtime::Program& step = program_of(bad.set, "step");
    // Every forward goes on without its gathers.
    const auto [id, wait] = needed_wait(step);
    for (Op& op : step.ops) {
      if (op.kind != OpKind::forward) continue;
      std::erase_if(op.waits, [&](OpId other) { return step.ops[other].kind == OpKind::gather; });
    }
    INFO(text(c));
    std::string error;
    try {
      runtime::verify(bad.set, layout);
    } catch (const core::ProgramError& e) {
      error = e.what();
    }
    INFO(error);
    CHECK(error.find('\'' + step.ops[id].name + '\'') != std::string::npos);
    CHECK(error.find('\'' + step.ops[wait].name + '\'') != std::string::npos);
    CHECK(error.find("a wait is missing") != std::string::npos);
    // On a GPU delays are of the host, and the streams it queues to catch up with each other.
    if (test::test_device() != core::DeviceKind::cpu) continue;
#ifndef __SANITIZE_THREAD__  // which would rightly report the race
    size_t wrong = 0;
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      s.stress_seed = seed;
      try {
        wrong += run_compiled(bad, s).state != calm;
      } catch (const core::Error&) {
        ++wrong;  // what is read by mistake may be no number at all
      }
    }
    CHECK(wrong > 0);
#endif
  }
}

}  // namespace zrt::stress_test

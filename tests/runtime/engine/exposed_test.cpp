// Exposed communication: how long computation stood still for it, up to the end of the step.
#include <thread>

#include "catch.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/pauses.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/wrapped_block.h"
#include "tests/wrapped_transport.h"

namespace zrt::exposed_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

struct Measured {
  double exposed_seconds, step_seconds;
  size_t gathers;
};

// The second step of rank 0, whose gathers take a pause longer.
Measured measure(const models::Model& model, const Setting& s, const Pauses& pauses) {
  const runtime::Layout layout = make_layout(model, s);
  const auto sleep = [&](std::string_view label) {
    if (label.starts_with("gather")) std::this_thread::sleep_for(pauses.length());
  };
  WrappedTransport transport(comm::make_thread_transport(s.ranks), {{}, sleep});
  runtime::Session session(runtime::compile(layout, phases_of(s)), session_options(s),
                           {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                              synthetic_batch(layout, 0, rank, microbatch, to);
                            },
                            {}},
                           transport);
  session.run("init", {});
  session.run("step", {s.seed, 0, 0, {1e-2}});
  const auto begin = std::chrono::steady_clock::now();
  session.run("step", {s.seed, 1, 0, {1e-2}});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  size_t gathers = 0;
  runtime::for_each_execution(session.stage(0).set.program("step"), ~0u, [&](runtime::OpId id, uint32_t) {
    gathers += session.stage(0).set.program("step").ops[id].kind == runtime::OpKind::gather;
  });
  return {session.executor(0).exposed_comm_seconds(), seconds, gathers};
}

}  // namespace

TEST_CASE("A slow collective that nothing hides is exposed in full, also at the end of a step", "[cpu]") {
  ZRT_ONLY_ON_CPU();  // what is slow here is the host, which on a GPU only queues
  const models::Model model = make_toy(3, 12, 17, 5, false, false);
  // At stage 3 blocks wait for their gathers; at stages 1 and 2 the updated weights are gathered after everything else.
  for (const int stage : {1, 2, 3}) {
    Setting s;
    s.stage = stage, s.ranks = 2;
    Pauses pauses;
    Measured m{};
    const bool in_full = pauses.until([&] {
      m = measure(model, s, pauses);
      return m.exposed_seconds >= 0.98 * static_cast<double>(m.gathers) * pauses.seconds();
    });
    CAPTURE(stage, m.gathers, m.exposed_seconds, m.step_seconds, pauses.seconds());
    REQUIRE(m.gathers > 0);
    CHECK(in_full);
    CHECK(m.exposed_seconds <= m.step_seconds);
  }
}

TEST_CASE("A collective that runs beside computation is not exposed", "[cpu]") {
  ZRT_ONLY_ON_CPU();
  // Every block computes for three times as long as its gather takes.
  Pauses pauses;
  const auto busy = [&](const models::Block&, const Call&, bool) { std::this_thread::sleep_for(3 * pauses.length()); };
  const models::Model model = wrap(make_toy(3, 12, 17, 5, false, false), {busy, {}});
  Setting s;
  s.stage = 3, s.ranks = 2, s.overlap = true;
  // The first gather has nothing to hide behind.
  Measured m{};
  const bool first_alone = pauses.until([&] {
    m = measure(model, s, pauses);
    return m.exposed_seconds >= 0.95 * pauses.seconds() &&
           m.exposed_seconds < 0.6 * static_cast<double>(m.gathers) * pauses.seconds();
  });
  CAPTURE(m.gathers, m.exposed_seconds, m.step_seconds, pauses.seconds());
  REQUIRE(m.gathers >= 5);
  CHECK(first_alone);
}

}  // namespace zrt::exposed_test

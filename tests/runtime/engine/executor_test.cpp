#include "runtime/engine/executor.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "catch.h"
#include "core/error.h"
#include "runtime/program/timeline.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/pauses.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/wrapped_block.h"

namespace zrt::executor_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

models::Model toy() {
  return make_toy(4, 12, 17, 5, false, false);
}

Setting setting(int stage, int ranks) {
  Setting s;
  s.stage = stage, s.ranks = ranks, s.accumulation = 3, s.overlap = true;
  s.unit_elements = 100, s.bucket = 200;
  return s;
}

void sleep_up_to(uint32_t microseconds) {
  static std::atomic<uint64_t> calls{0};
  std::this_thread::sleep_for(std::chrono::microseconds(core::random_word({2, 7, 1}, calls++) % microseconds));
}

}  // namespace

TEST_CASE("an error in a block of one rank ends the run on all ranks with that error") {
  for (int stage : {0, 2, 3}) {
    for (bool serialize : {false, true}) {
      for (bool backward : {false, true}) {
        for (int ranks : {1, 2, 4}) {
          const models::Model model = wrap(toy(), {[&](const models::Block& block, const Call& call, bool is_backward) {
                                                     if (block.name() == "linear.2" && is_backward == backward &&
                                                         call.rng.step == 1 && rank_of(call, ranks) == ranks - 1) {
                                                       throw core::DataError("the disk of this rank is on fire");
                                                     }
                                                   },
                                                   {}});
          Setting s = setting(stage, ranks);
          s.serialize = serialize;
          s.timeout = std::chrono::hours(24);  // whoever waited for the failed rank would hang
          CAPTURE(stage, serialize, backward, ranks);
          CHECK_THROWS_WITH(run(model, s), "the disk of this rank is on fire");
        }
      }
    }
  }
}

TEST_CASE("an error that is no std::exception ends the run as well") {
  const models::Model model = wrap(toy(), {[&](const models::Block& block, const Call& call, bool) {
                                             if (block.name() == "linear.2" && rank_of(call, 2) == 1) throw 7;
                                           },
                                           {}});
  CHECK_THROWS_AS(run(model, setting(3, 2)), int);
}

TEST_CASE("a rank that cannot make its batch ends the run, and no block ever sees the missing batch") {
  for (bool serialize : {false, true}) {
    for (uint32_t bad : {0u, 2u}) {
      std::atomic<int> calls{0};
      const models::Model model =
          wrap(toy(), {[&](const models::Block&, const Call& call, bool) {
                         const auto microbatch = call.first_sample / static_cast<uint64_t>(call.shape.B) / 2;
                         calls += call.rng.step == 0 && rank_of(call, 2) == 1 && microbatch >= bad;
                       },
                       {}});
      Setting s = setting(3, 2);
      s.serialize = serialize;
      s.on_batch = [&](int rank, uint32_t step, uint32_t microbatch) {
        if (rank == 1 && step == 0 && microbatch == bad) throw core::DataError("sample 12 is truncated");
      };
      CHECK_THROWS_WITH(run(model, s), "sample 12 is truncated");
      CHECK(calls == 0);
    }
  }
}

TEST_CASE("a run after a failed one fails too instead of waiting") {
  std::atomic<bool> failing{true};
  const models::Model model = wrap(toy(), {[&](const models::Block&, const Call& call, bool) {
                                             if (failing && rank_of(call, 2) == 0) throw core::DataError("once");
                                           },
                                           {}});
  const Setting s = setting(2, 2);
  const runtime::Layout layout = make_layout(model, s);
  runtime::Session session(runtime::compile(layout, phases_of(s)), session_options(s),
                           {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                              synthetic_batch(layout, 0, rank, microbatch, to);
                            },
                            {}});
  session.run("init", {});
  CHECK_THROWS_WITH(session.run("step", {}), "once");
  failing = false;
  CHECK_THROWS_AS(session.run("step", {}), core::CommError);
}

TEST_CASE("random delays in blocks and batches do not change a bit") {
  for (int stage : {0, 1, 2, 3}) {
    Setting s = setting(stage, 3);
    s.reduce_every = stage == 1 ? 3 : 1;
    s.steps = 3;
    const Outcome plain = run(toy(), s);
    const models::Model slow = wrap(toy(), {[](const auto&, const auto&, bool) { sleep_up_to(400); },
                                            [](const auto&, const auto&, bool) { sleep_up_to(200); }});
    s.on_batch = [](int, uint32_t, uint32_t) { sleep_up_to(500); };
    for (bool overlap : {false, true}) {
      s.overlap = overlap;
      const Outcome outcome = run(slow, s);
      CHECK(outcome.state == plain.state);
      CHECK(outcome.losses == plain.losses);
      CHECK(outcome.measured == outcome.planned);
    }
  }
}

TEST_CASE("exposed seconds count what the compute lane waited for, and nothing else", "[cpu]") {
  ZRT_ONLY_ON_CPU();  // a GPU finds all batches made
  Setting s = setting(3, 2);
  s.steps = 2;
  Pauses pauses;
  const auto slow_batch = [&](int rank, uint32_t, uint32_t) {
    if (rank == 0) std::this_thread::sleep_for(pauses.length());
  };
  const Outcome plain = run(toy(), s);
  CHECK(plain.exposed_comm >= 0);
  CHECK(plain.exposed_io >= 0);
  s.on_batch = slow_batch;
  // Three slow batches, of which the first cannot hide behind any compute.
  CHECK(pauses.until([&] { return run(toy(), s).exposed_io > 0.95 * pauses.seconds(); }));
  // Another rank's delay is seen as waiting for communication.
  s.on_batch = [&](int rank, uint32_t step, uint32_t microbatch) { slow_batch(1 - rank, step, microbatch); };
  CHECK(pauses.until([&] { return run(toy(), s).exposed_comm > 0.95 * pauses.seconds(); }));
  s.serialize = true;
  const Outcome serial = run(toy(), s);
  CHECK(serial.exposed_comm == 0);
  CHECK(serial.exposed_io == 0);
}

TEST_CASE("a trace holds every execution once, in order on its lane") {
  const models::Model model = toy();
  const Setting s = setting(3, 2);
  const runtime::Layout layout = make_layout(model, s);
  runtime::Compiled compiled = runtime::compile(layout, phases_of(s));
  runtime::SessionOptions options = session_options(s);
  size_t expected = 0;
  runtime::for_each_execution(compiled.set.program("step"), ~0u, [&](runtime::OpId, uint32_t) { ++expected; });
  runtime::Session session(std::move(compiled), options,
                           {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                              synthetic_batch(layout, 0, rank, microbatch, to);
                            },
                            {}});
  session.run("init", {});
  const auto& trace = session.executor(1).trace();
  CHECK(trace.empty());
  session.executor(1).set_tracing(true);
  session.run("step", {7, 5, 0, {1e-2}});
  session.executor(1).set_tracing(false);
  session.run("step", {7, 6, 0, {1e-2}});
  CHECK(session.executor(0).trace().empty());
  REQUIRE(trace.size() == expected);
  std::set<std::pair<runtime::OpId, uint32_t>> executions;
  std::array<double, runtime::max_lanes> last{};
  uint64_t received = 0;
  for (const runtime::TraceEvent& event : trace) {
    const uint8_t lane = event.program->ops[event.op].lane;
    executions.insert({event.op, event.iteration});
    CHECK(event.step == 5);
    CHECK(event.start_seconds >= last[lane]);
    CHECK(event.end_seconds >= event.start_seconds);
    last[lane] = event.end_seconds;
    received += event.received_bytes;
  }
  CHECK(executions.size() == expected);
  uint64_t counted = 0;  // of two equal steps
  for (const auto& [kind, volume] : session.executor(1).comm_volume()) counted += volume.bytes;
  CHECK(received * 2 == counted);
}

TEST_CASE("computation and communication of a step can be run alone, each whole and without the other") {
  const models::Model model = toy();
  const Setting s = setting(3, 2);
  const runtime::Layout layout = make_layout(model, s);
  runtime::Session session(runtime::compile(layout, phases_of(s)), session_options(s),
                           {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                              synthetic_batch(layout, 0, rank, microbatch, to);
                            },
                            {}});
  session.run("init", {});
  const runtime::Program& step = session.stage(0).set.program("step");
  struct Done {
    uint64_t bytes, updates;
  };
  auto run = [&](runtime::Only only) {
    auto bytes = [&] {
      const comm::Counters all = session.communicator(1).counters();
      return std::accumulate(std::begin(all.bytes), std::end(all.bytes), uint64_t{0});
    };
    const uint64_t before = bytes(), updates = session.executor(1).control().persistent.progress[0].updates;
    session.on_all_ranks([&](size_t r) {
      session.executor(static_cast<int>(r)).control().inputs = {7, 5, 0, {1e-2}};
      session.executor(static_cast<int>(r)).run(step, only);
    });
    return Done{bytes() - before, session.executor(1).control().persistent.progress[0].updates - updates};
  };
  const Done whole = run(runtime::Only::everything);
  CHECK(whole.bytes > 0);
  CHECK(whole.updates == 1);
  const Done computation = run(runtime::Only::compute);
  CHECK(computation.bytes == 0);
  CHECK(computation.updates == 1);
  const Done communication = run(runtime::Only::communication);
  CHECK(communication.bytes == whole.bytes);
  CHECK(communication.updates == 0);
}

TEST_CASE("the first block gets the dropout index and the saved state of its own microbatch") {
  // With resident gradients a tied first block runs its backwards after all microbatches.
  for (int stage : {0, 3}) {
    for (uint32_t every : {1u, 4u}) {
      std::mutex mutex;
      std::multiset<uint64_t> forward, backward;
      const models::Model model = wrap(make_toy(2, 12, 17, 5, true, false),
                                       {[&](const models::Block& block, const Call& call, bool is_backward) {
                                          if (block.name() != "embed") return;
                                          const std::lock_guard lock(mutex);
                                          (is_backward ? backward : forward).insert(call.first_sample);
                                        },
                                        {}});
      Setting s = setting(stage, 2);
      s.accumulation = 4, s.reduce_every = every, s.steps = 1;
      run(model, s);
      CHECK(forward == std::multiset<uint64_t>{0, 2, 4, 6, 8, 10, 12, 14});
      CHECK(backward == forward);
    }
  }
}

}  // namespace zrt::executor_test

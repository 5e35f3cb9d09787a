// Threads of a run of which one fails and another is stuck.
#include "runtime/engine/rank_threads.h"

#include <atomic>
#include <stdexcept>

#include "catch.h"
#include "core/error.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"

namespace zrt::rank_threads_test {

using namespace zrt;
using namespace zrt::runtime;
using namespace std::chrono_literals;

TEST_CASE("a set of threads returns what each thread threw, and reports nobody who ends by himself") {
  RankThreads threads;
  bool reported = false;
  threads.start([] {});
  threads.start([] { throw core::DataError("the disk is full"); });
  const auto errors = threads.join(10s, [&](const std::exception&) { reported = true; });
  REQUIRE(errors.size() == 2);
  CHECK(errors[0] == nullptr);
  CHECK_THROWS_AS(std::rethrow_exception(errors[1]), core::DataError);
  CHECK_FALSE(reported);
  CHECK_FALSE(threads.running());
}

TEST_CASE("a thread that is stuck when another has failed is reported with the other's error") {
  std::atomic<bool> release = false;
  std::string reason;
  RankThreads threads;
  threads.start([&] {
    while (!release) std::this_thread::yield();
  });
  threads.start([] { throw core::CommError("missing ranks: 0"); });
  threads.join(10ms, [&](const std::exception& error) {
    reason = error.what();
    release = true;
  });
  CHECK(reason == "missing ranks: 0");
}

// Nobody can free a thread from a callback that does not return; but the run need not wait for it in silence.
TEST_CASE("a rank stuck in its batches is named after the time-out, while its thread still hangs", "[cpu]") {
  ZRT_ONLY_ON_CPU();  // a GPU's batches are made before a program starts
  const models::Model model = testing::make_toy(4, 12, 17, 5, false, false);
  testing::Setting setting;
  setting.stage = 2, setting.ranks = 3;
  const Layout layout = testing::make_layout(model, setting);
  SessionOptions options = testing::session_options(setting);
  options.timeout = 3s;
  std::atomic<bool> stop = false, release = false;
  std::string reason;
  SessionHooks hooks;
  hooks.batch = [&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
    while (stop && rank == 1 && !release) std::this_thread::sleep_for(1ms);
    testing::synthetic_batch(layout, 0, rank, microbatch, to);
  };
  hooks.stuck = [&](const std::exception& error) {
    reason = error.what();
    release = true;
  };
  Session session(compile(layout, testing::phases_of(setting)), options, hooks);
  session.run("init", {});
  session.run("step", {setting.seed, 0, 0, {1e-2}});
  CHECK(reason.empty());
  stop = true;
  CHECK_THROWS_AS(session.run("step", {setting.seed, 1, 0, {1e-2}}), core::CommError);
  CHECK(reason.find("missing ranks: 1; waiting ranks: 0, 2") != std::string::npos);
  CHECK(reason.find("timed out after 3000 ms") != std::string::npos);
}

}  // namespace zrt::rank_threads_test

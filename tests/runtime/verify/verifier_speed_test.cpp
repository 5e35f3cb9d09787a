// The verifier looks at every execution of every op; it must stay quick for the largest programs.
#include <ctime>

#include "catch.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"

namespace zrt::verifier_speed_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

// Seconds of processor time that verify() takes, which neighbours cannot stretch far; the least of three.
double seconds(const runtime::Layout& layout, size_t executions, size_t buffers) {
  const runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "export"}, {}, false);
  size_t found = 0;
  runtime::for_each_execution(compiled.set.program("step"), ~0u, [&](runtime::OpId, uint32_t) { ++found; });
  CHECK(found >= executions);
  CHECK(compiled.set.buffers.size() >= buffers);
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    runtime::verify(compiled.set, layout);
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

// Fifty times what it takes; what grows with the square of a program takes minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double limit = 60;
#else
constexpr double limit = 6;
#endif

}  // namespace

TEST_CASE("programs of 96 layers and 512 microbatches are verified in seconds") {
  const models::Model model = make_toy(96, 12, 17, 5, false, false);
  for (uint32_t every : {1u, 512u}) {
    for (int stage : {0, 3}) {
      Setting s;
      s.ranks = 8, s.stage = stage, s.accumulation = 512, s.reduce_every = every, s.overlap = true;
      s.unit_elements = 100, s.bucket = 1000;
      CAPTURE(every, stage);
      CHECK(seconds(make_layout(model, s), 100'000, 1000) < limit);
    }
  }
}

TEST_CASE("programs of thousands of units and buffers are verified in seconds") {
  const models::Model model = make_toy(500, 12, 17, 5, false, false);
  for (int stage : {1, 3}) {
    Setting s;
    s.ranks = 64, s.stage = stage, s.accumulation = 8, s.overlap = true;
    s.unit_elements = 1, s.bucket = 1 << 20;
    CAPTURE(stage);
    CHECK(seconds(make_layout(model, s), 10'000, 6000) < limit);
  }
}

}  // namespace zrt::verifier_speed_test

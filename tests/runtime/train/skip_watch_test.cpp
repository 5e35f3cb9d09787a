// Tests which skipped steps count for run.skip_limit, and which are worth a warning.
#include "runtime/train/skip_watch.h"

#include <cmath>
#include <vector>

#include "catch.h"

namespace zrt::skip_watch_test {

using namespace zrt::runtime;

namespace {

StepMetrics step(int64_t number, bool skipped, double scale = 1) {
  StepMetrics m;
  m.step = number, m.skipped = skipped, m.loss_scale = scale;
  m.loss = 2.5, m.grad_norm = skipped ? NAN : 1;
  return m;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the first skipped step of each row is a warning with its number, and a taken step ends the row") {
  SkipWatch watch(3, {});
  CHECK(watch.after(step(1, false)).empty());
  CHECK(has(watch.after(step(2, true)), "step 2 was skipped: its loss (2.5) or gradient (norm nan) is not finite"));
  CHECK(watch.after(step(3, true)).empty());
  CHECK(watch.in_row() == 2);
  CHECK_FALSE(watch.too_many());
  CHECK(watch.after(step(4, false)).empty());
  CHECK(watch.in_row() == 0);
  CHECK(has(watch.after(step(5, true)), "step 5 was skipped"));
  watch.after(step(6, true));
  CHECK_FALSE(watch.too_many());
  watch.after(step(7, true));
  CHECK(watch.too_many());
}

TEST_CASE("a limit of 0 never ends a run, and the warning says so") {
  SkipWatch watch(0, {});
  CHECK(has(watch.after(step(1, true)), "run.skip_limit is 0"));
  for (int64_t number = 2; number < 2000; ++number) watch.after(step(number, true));
  CHECK_FALSE(watch.too_many());
  CHECK(watch.in_row() == 1999);
}

TEST_CASE("skips while a dynamic loss scale can still be lowered do not count; those at its minimum do") {
  optimizer::LossScaleParams scale{.dynamic = true, .initial = 65536, .hysteresis = 20, .minimum = 4};
  SkipWatch watch(2, scale);
  CHECK(has(watch.after(step(1, true, 65536)), "not finite at the loss scale 65536"));
  // Overflows that are only counted, and those that halve the scale.
  for (int64_t number = 2; number < 30; ++number) CHECK(watch.after(step(number, true, 65536)).empty());
  CHECK(watch.after(step(30, true, 8)).empty());
  CHECK(watch.in_row() == 0);
  CHECK(has(watch.after(step(31, true, 4)), "step 31 was skipped"));
  CHECK(watch.in_row() == 1);
  watch.after(step(32, true, 8));  // neither counts nor ends the row
  CHECK(watch.in_row() == 1);
  watch.after(step(33, true, 4));
  CHECK(watch.too_many());
}

TEST_CASE("a loss scale that does not come down is a warning every hundred steps") {
  SkipWatch watch(2, {.dynamic = true, .initial = 65536, .hysteresis = 1000});
  for (int64_t number = 1; number <= 300; ++number) {
    const std::string text = watch.after(step(number, true, 65536));
    CHECK(has(text, "100 steps in a row were skipped, and the loss scale is still 65536") == (number == 100));
    CHECK(has(text, "fp16.hysteresis (1000)") == (number % 100 == 0));
  }
  watch.after(step(301, false));
  for (int64_t number = 302; number < 400; ++number) CHECK(watch.after(step(number, true, 65536)).empty());
}

TEST_CASE("weights are suspected from the first skip that counts on, or the third in a row of a dynamic loss scale") {
  SkipWatch watch(10, {.dynamic = true, .initial = 65536, .minimum = 1});
  for (const bool suspected : {false, false, true, true}) {
    watch.after(step(1, true, 65536));
    CHECK(watch.keeps_skipping() == suspected);
  }
  watch.after(step(5, false, 4096));
  CHECK_FALSE(watch.keeps_skipping());
  watch.after(step(6, true, 1));
  CHECK(watch.keeps_skipping());
}

TEST_CASE("a loss scale below all that fp16 holds finds no range, whatever its minimum") {
  SkipWatch watch(2, {.dynamic = true, .minimum = 0});
  watch.after(step(1, true, 0x1p-23));
  CHECK(watch.in_row() == 0);
  watch.after(step(2, true, 0x1p-24));
  watch.after(step(3, true, 0x1p-25));
  CHECK(watch.too_many());
}

TEST_CASE("every skip under a static loss scale counts") {
  SkipWatch watch(2, {.dynamic = false, .initial = 4096});
  watch.after(step(1, true, 4096));
  watch.after(step(2, true, 4096));
  CHECK(watch.too_many());
}

}  // namespace zrt::skip_watch_test

#include "optimizer/loss_scale.h"

#include <cmath>

#include "catch.h"
#include "core/error.h"
#include "tests/optimizer/goldens.h"

namespace zrt::optimizer::loss_scale_test {
namespace {

TEST_CASE("the dynamic loss scale moves as DeepSpeed's does, and ends the run at its minimum") {
  REQUIRE(goldens()["loss_scales"].size() == 7);
  for (const auto& golden : goldens()["loss_scales"]) {
    INFO(golden.dump());
    const LossScaleParams params{
        true, golden["initial"], golden["window"], golden["hysteresis"], golden["consecutive"], golden["minimum"]};
    LossScale state = initial_loss_scale(params);
    CHECK(state.scale == golden["initial"].get<double>());
    const std::string overflows = golden["overflows"];
    size_t step = 0;
    for (const auto& scale : golden["scales"]) {
      CAPTURE(step);
      const bool overflow = overflows.at(step++) == 'x';
      if (scale.is_null()) {
        CHECK(!update_loss_scale(params, state, overflow));
      } else {
        CHECK(update_loss_scale(params, state, overflow));
        CHECK(state.scale == scale.get<double>());
      }
    }
  }
}

TEST_CASE("a static loss scale never moves and never ends the run") {
  const LossScaleParams params{.dynamic = false, .initial = 128};
  LossScale state = initial_loss_scale(params);
  for (int step = 0; step < 3000; ++step) REQUIRE(update_loss_scale(params, state, step % 3 == 0));
  CHECK(state.scale == 128);
}

TEST_CASE("the least loss scale is reached without an error, keeps factors finite and is never passed") {
  const LossScaleParams params{true, 1, 1000, 1, false, least_loss_scale};
  LossScale state = initial_loss_scale(params);
  for (int power = -1; power >= least_scale_power; --power) {
    REQUIRE(update_loss_scale(params, state, true));
    CHECK(state.scale == std::ldexp(1.0, power));
  }
  for (int more = 0; more < 3; ++more) CHECK(!update_loss_scale(params, state, true));
  CHECK(state.scale == least_loss_scale);
  // fp16's smallest normal number.
  CHECK(state.scale == 0x1p-14);
}

TEST_CASE("the error at the minimum names the scale, its key and what to try") {
  const LossScaleParams params{true, 4, 1000, 1, false, 4};
  CHECK_THROWS_AS(throw_at_minimum(params), core::NumericError);
  CHECK_THROWS_WITH(throw_at_minimum(params), Catch::Contains("minimum, 4") && Catch::Contains("fp16.min_loss_scale") &&
                                                  Catch::Contains("Try bf16"));
}

}  // namespace
}  // namespace zrt::optimizer::loss_scale_test

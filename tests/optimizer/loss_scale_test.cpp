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

TEST_CASE("a run that goes on takes its own static scale, and a dynamic one where it was, within its bounds") {
  const LossScaleParams fixed{.dynamic = false, .initial = 512};
  const LossScaleParams moving{true, 65536, 1000, 2, false, 1};
  const LossScale saved_static{64, 2, 0, -1}, saved_moving{1024, 2, 40, 17};
  for (const LossScale& saved : {saved_static, saved_moving}) CHECK(resumed_loss_scale(fixed, saved).scale == 512);
  CHECK(resumed_loss_scale(moving, saved_static).scale == 65536);
  const LossScale on = resumed_loss_scale(moving, saved_moving);
  CHECK(on.scale == 1024);
  CHECK(on.iteration == 40);
  CHECK(on.last_overflow == 17);
  CHECK(on.hysteresis == 2);
  const LossScaleParams bounded{true, 65536, 1000, 1, false, 5000};
  CHECK(resumed_loss_scale(bounded, saved_moving).scale == 5000);
  CHECK(resumed_loss_scale(bounded, saved_moving).hysteresis == 1);
}

TEST_CASE("the error at the minimum names the scale, its key and what to try") {
  const LossScaleParams params{true, 4, 1000, 1, false, 4};
  CHECK_THROWS_AS(throw_at_minimum(params), core::NumericError);
  CHECK_THROWS_WITH(throw_at_minimum(params), Catch::Contains("minimum, 4") && Catch::Contains("fp16.min_loss_scale") &&
                                                  Catch::Contains("Try bf16"));
}

}  // namespace
}  // namespace zrt::optimizer::loss_scale_test

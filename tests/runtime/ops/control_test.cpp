// The control block's ops at the test's device against the host's decisions.
#include <cmath>
#include <cstring>
#include <limits>

#include "catch.h"
#include "core/error.h"
#include "runtime/ops/control_ops.h"

namespace zrt::runtime::control_test {
namespace {

using test::Visible;

// Returns what a rank has summed when its norm is that of `squares`.
Control summed(double loss, uint64_t tokens, double squares, uint32_t requests) {
  Control control;
  control.loss_sum = loss;
  control.loss_tokens = tokens;
  control.norm.add(squares);
  control.inputs.requests = requests;
  control.persistent.loss_scale = {8, 2, 0, -1};
  control.next.progress[0] = {5, 0.5, 0.25};
  control.next.decision[0].updates = 5;
  control.next.decision[0].lr = 0.125;
  return control;
}

TEST_CASE("begin empties the sums of a step, and losses and counted targets are added to them") {
  Visible<Control> control(1, summed(7, 3, 1, 0));
  Visible<int32_t> targets(1000, 4);
  for (size_t i = 0; i < targets.size(); i += 3) targets[i] = -1;
  begin_step(control.data());
  test::settle();
  CHECK(control[0].loss_sum == 0);
  CHECK(control[0].loss_tokens == 0);
  CHECK(control[0].norm == optimizer::ExactSum{});
  for (int call = 1; call < 3; ++call) {
    control[0].call_loss = 2.5;
    count_loss(control.data(), targets.data(), static_cast<int64_t>(targets.size()));
    test::settle();
    CHECK(control[0].loss_sum == 2.5 * call);
    CHECK(control[0].loss_tokens == 666u * static_cast<uint64_t>(call));
  }
}

TEST_CASE("a taken step is the candidate, scaled and clipped; a skipped one keeps the decision before it") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double clip : {0.0, 1e-3, 1e6}) {
    for (const double squares : {4.0, 2e-4, 0.0, 1e-70, nan}) {
      DecideRules rules{Mesh(3, 1, 1)};
      rules.clip = clip;
      rules.loss_scale.dynamic = true;
      rules.loss_scale.hysteresis = 1;
      Visible<ControlShare> shares(3);
      Visible<Control> control(1);
      for (int rank = 0; rank < 3; ++rank) {
        control[0] = summed(0.1 * rank, 10, rank == 2 ? 0 : squares, 1u << rank);
        make_share(control.data(), shares.data() + rank);
        test::settle();
      }
      CHECK(std::memcmp(&shares[2].norm, &control[0].norm, sizeof shares[2].norm) == 0);
      Control host = control[0];
      decide(shares.data(), rules, control.data());
      test::settle();
      decide_step(shares.data(), rules, host);
      CAPTURE(clip, squares);
      const Control& c = control[0];
      CHECK(c.requests == 7);
      CHECK(c.mean_tokens == 30);
      CHECK(c.mean_loss == Approx(0.01));
      CHECK(c.loss_scale == 8);
      const double norm = std::sqrt(2 * squares) / 8;
      const bool skip = std::isnan(squares);
      CHECK(c.decision[0].skip == (skip ? 1 : 0));
      CHECK(c.persistent.progress[0].updates == (skip ? 0u : 5u));
      CHECK(c.persistent.loss_scale.scale == (skip ? 4 : 8));
      if (!skip) {
        CHECK(c.grad_norm == Approx(squares == 1e-70 ? 0 : norm));
        CHECK(c.decision[0].lr == 0.125);
        const double over = clip > 0 ? std::max(1.0, (c.grad_norm + 1e-6) / clip) : 1;
        CHECK(static_cast<double>(c.decision[0].grad_scale) == Approx(1 / (8 * over)));
        CHECK(std::sqrt(c.decision[0].grad_squares) == Approx(c.grad_norm / over));
      }
      // The host's bits, but for those of a NaN.
      CHECK(std::isnan(host.grad_norm) == std::isnan(c.grad_norm));
      if (!skip) CHECK(host.grad_norm == c.grad_norm);
      CHECK(host.mean_loss == c.mean_loss);
      CHECK(host.decision[0].grad_scale == c.decision[0].grad_scale);
      CHECK(host.decision[0].grad_squares == c.decision[0].grad_squares);
    }
  }
}

TEST_CASE("the gradient and its norm are of the targets that count, and a step without one changes nothing") {
  for (const int64_t counted : {-1, 1000, 250, 0}) {
    for (const bool ahead : {false, true}) {
      DecideRules rules;
      rules.targets = 1000, rules.ahead = ahead;
      rules.loss_scale.dynamic = !ahead;
      Visible<Control> control(1, summed(counted == 0 ? 0 : 5, counted == 0 ? 0 : 10, counted == 0 ? 0 : 4, 0));
      Visible<Control> decided(1);
      Visible<ControlShare> shares(1);
      control[0].inputs.counted = counted;
      make_share(control.data(), shares.data());
      decide_ahead(control.data(), rules, decided.data());
      decide(shares.data(), rules, control.data());
      test::settle();
      CAPTURE(counted, ahead);
      const Control& c = control[0];
      const double factor = counted == 250 ? 4 : 1;
      CHECK(c.fault == Fault::none);
      CHECK(c.decision[0].skip == (counted == 0 ? 1 : 0));
      CHECK(c.persistent.progress[0].updates == (counted == 0 ? 0u : 5u));
      CHECK(c.persistent.loss_scale.scale == 8);
      CHECK(c.persistent.loss_scale.iteration == (counted == 0 || ahead ? 0 : 1));
      CHECK(c.grad_norm == (counted == 0 ? 0 : 2 * factor / 8));
      CHECK(decided[0].decision[0].skip == (counted == 0 ? 1u : 0u));
      CHECK(static_cast<double>(decided[0].decision[0].grad_scale) == factor / 8);
      if (counted != 0) CHECK(static_cast<double>(c.decision[0].grad_scale) == factor / 8);
    }
  }
}

TEST_CASE("a loss that is not finite skips the step, however finite the gradient") {
  for (const double loss : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    DecideRules rules{Mesh(2, 1, 1)};
    rules.loss_scale.dynamic = true;
    rules.loss_scale.hysteresis = 1;
    Visible<ControlShare> shares(2);
    Visible<Control> control(1);
    for (const int rank : {0, 1}) {
      control[0] = summed(rank == 0 ? loss : 1, 10, 4, 0);
      make_share(control.data(), shares.data() + rank);
      test::settle();
    }
    decide(shares.data(), rules, control.data());
    test::settle();
    CHECK(control[0].decision[0].skip == 1);
    CHECK(std::isfinite(control[0].grad_norm));
    CHECK(control[0].persistent.progress[0].updates == 0);
    CHECK(control[0].persistent.loss_scale.scale == 4);
  }
}

TEST_CASE("a loss scale that cannot fall is a fault, which the host throws") {
  DecideRules rules;
  rules.loss_scale.dynamic = true;
  rules.loss_scale.hysteresis = 1;
  rules.loss_scale.minimum = 8;
  Visible<Control> control(1, summed(0, 1, std::numeric_limits<double>::infinity(), 0));
  Visible<ControlShare> shares(1);
  make_share(control.data(), shares.data());
  decide(shares.data(), rules, control.data());
  test::settle();
  CHECK(control[0].decision[0].skip == 1);
  CHECK(control[0].persistent.loss_scale.iteration == 0);
  Rank rank;
  rank.loss_scale = rules.loss_scale;
  CHECK_THROWS_AS(throw_fault(rank, control[0]), core::NumericError);
  control[0].fault = Fault::none;
  CHECK_NOTHROW(throw_fault(rank, control[0]));
}

}  // namespace
}  // namespace zrt::runtime::control_test

// Gradients that are not finite: all ranks skip alike, nothing moves, and the loss scale follows its law.
#include <cmath>
#include <cstring>
#include <limits>

#include "catch.h"
#include "core/error.h"
#include "models/model.h"
#include "optimizer/groups.h"
#include "optimizer/muon_rule.h"
#include "runtime/train/run_manifest.h"
#include "tests/optimizer/kind_of.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/wrapped_block.h"

namespace zrt::skipped_steps_test {

using namespace zrt;
using namespace zrt::testing;
using optimizer::OptimizerPtr;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// Puts `value` into the last gradient of one block, on one rank and at steps for which `when` says so.
models::Model with_bad_gradient(int ranks, float value, std::function<bool(uint32_t step)> when) {
  return wrap(make_toy(3, 12, 17, 5, false, false),
              {{}, [=](const models::Block& block, const Call& call, bool backward) {
                 const bool here = backward && block.name() == "linear.1" && rank_of(call, ranks) == ranks - 1;
                 if (here && when(call.rng.step)) poke(call.grads[0], call.shape.grad_type, 143, value);
               }});
}

// All bytes that survive from step to step on one rank, but for the control block.
std::vector<std::byte> state_bytes(runtime::Session& session, int rank) {
  if (session.stage(rank).set.has("refresh")) session.run("refresh", {});
  std::vector<std::byte> bytes;
  for (const runtime::Buffer& buffer : session.stage(rank).set.buffers) {
    if (buffer.life != runtime::Life::carried || buffer.name == "control") continue;
    const std::vector<std::byte> held = session.executor(rank).read(buffer.name);
    bytes.insert(bytes.end(), held.begin(), held.end());
  }
  return bytes;
}

struct Steps {
  runtime::Layout layout;
  std::unique_ptr<runtime::Session> session;
  uint32_t step = 0;

  Steps(const models::Model& model, const Setting& s) : layout(make_layout(model, s)) {
    session = std::make_unique<runtime::Session>(
        runtime::compile(layout, phases_of(s)), session_options(s),
        runtime::SessionHooks{[this](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                                synthetic_batch(layout, step, rank, microbatch, to);
                              },
                              {}});
    session->run("init", {});
  }
  void run() {
    session->run("step", {7, step, 0, {1e-2}});
    ++step;
  }
  runtime::Control& control(int rank) { return session->executor(rank).control(); }
};

std::vector<OptimizerPtr> optimizers() {
  return {make_optimizer(optimizer::AdamParams{}), make_optimizer(optimizer::SgdParams{0.9f}),
          make_optimizer(optimizer::LionParams{}), make_optimizer(optimizer::AdafactorParams{})};
}

}  // namespace

TEST_CASE("a NaN or an infinity in one gradient of one rank is skipped by all ranks, and no state moves") {
  unsigned number = 0;
  for (float bad : {not_a_number, std::numeric_limits<float>::infinity()}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (core::DType type : {core::DType::f32, core::DType::bf16}) {
        for (const OptimizerPtr& optimizer : optimizers()) {
          INFO(zrt::testing::kind_of(*optimizer));
          if (left_to_processor(number++)) continue;
          const int ranks = 3;
          const models::Model model = with_bad_gradient(ranks, bad, [](uint32_t step) { return step == 1; });
          Setting s;
          s.ranks = ranks, s.stage = stage, s.compute = type, s.optimizer = optimizer, s.unit_elements = 100;
          s.bucket = 200;
          Steps steps(model, s);
          steps.run();
          std::vector<std::vector<std::byte>> before;
          before.reserve(3);
          for (int r = 0; r < ranks; ++r) before.push_back(state_bytes(*steps.session, r));
          CAPTURE(bad, stage, core::dtype_name(type));
          steps.run();
          for (int r = 0; r < ranks; ++r) {
            CHECK(steps.control(r).decision[0].skip == 1);
            CHECK(std::isnan(steps.control(r).grad_norm));
            CHECK(steps.control(r).persistent.progress[0].updates == 1);
            CHECK(state_bytes(*steps.session, r) == before[static_cast<size_t>(r)]);
          }
          steps.run();
          for (int r = 0; r < ranks; ++r) {
            CHECK(steps.control(r).decision[0].skip == 0);
            CHECK(steps.control(r).persistent.progress[0].updates == 2);
            CHECK(state_bytes(*steps.session, r) != before[static_cast<size_t>(r)]);
          }
        }
      }
    }
  }
}

TEST_CASE("wherever states are resident and are updated, a skipped step leaves the weights as they were", "[long]") {
  optimizer::MuonParams matrices;
  std::vector<OptimizerPtr> all = optimizers();
  all.push_back(make_split(all[0], make_optimizer(matrices),
                           [](const models::Param& param, bool hidden) { return hidden && param.shape.size() == 2; }));
  all.push_back(make_optimizer(optimizer::AdamParams{.moments = optimizer::Moments::int8}));
  unsigned number = 0;
  for (const NamedPlacing& placing : placings()) {
    for (int stage = 0; stage < 4; ++stage) {
      for (size_t turn = 0; turn < (full_tests() ? all.size() : 2); ++turn) {
        const size_t o = (number + turn * 2) % all.size();
        if (left_to_processor(number++)) continue;
        Setting s;
        s.ranks = 1 + static_cast<int>(number % 2), s.stage = stage, s.optimizer = all[o];
        s.compute = number % 3 == 0 ? core::DType::f16 : core::DType::bf16;
        s.overlap = number % 4 < 2;
        s.unit_elements = 100, s.bucket = 200;
        const models::Model model =
            with_bad_gradient(s.ranks, not_a_number, [](uint32_t step) { return step == 1 || step == 3; });
        Setting placed = s;
        placed.placement = with_exchanges_on_the_device(placing.place);
        Steps device(model, s), elsewhere(model, placed);
        for (int step = 0; step < 5; ++step) {
          device.run(), elsewhere.run();
          CAPTURE(placing.name, stage, zrt::testing::kind_of(*all[o]), core::dtype_name(s.compute), s.ranks, step);
          CHECK(elsewhere.control(0).decision[0].skip == (step == 1 || step == 3 ? 1u : 0u));
          CHECK(elsewhere.control(0).mean_loss == device.control(0).mean_loss);
        }
        CHECK(elsewhere.session->state_xxh3() == device.session->state_xxh3());
      }
    }
  }
}

TEST_CASE("training goes on after a skipped step as if it had not been, but for its batch") {
  // Steps 0 and 2 of a run whose step 1 is skipped are the steps of a run that never saw the batch of step 1.
  for (const OptimizerPtr& optimizer : optimizers()) {
    INFO(zrt::testing::kind_of(*optimizer));
    Setting s;
    s.ranks = 2, s.stage = 2, s.optimizer = optimizer;
    const models::Model bad = with_bad_gradient(2, not_a_number, [](uint32_t step) { return step == 1; });
    Steps skipping(bad, s);
    for (int i = 0; i < 3; ++i) skipping.run();
    const models::Model good = make_toy(3, 12, 17, 5, false, false);
    Steps other(good, s);
    other.run();
    other.step = 2;
    other.run();

    CHECK(skipping.session->state_xxh3() == other.session->state_xxh3());
  }
}

TEST_CASE("the loss scale of a step is what earlier steps left, on all ranks, and does not change fp32 weights") {
  Setting s;
  s.ranks = 2, s.stage = 1, s.steps = 8;
  const models::Model model = make_toy(3, 12, 17, 5, false, false);
  const Outcome plain = run(model, s);
  s.loss_scale = {.dynamic = true, .initial = 1024, .window = 2, .hysteresis = 1};
  const Outcome scaled = run(model, s);
  CHECK(scaled.loss_scales == std::vector<double>{1024, 1024, 1024, 2048, 2048, 4096, 4096, 8192});
  // Scales are powers of two: all arithmetic in fp32 is the same but for the exponent.
  CHECK(scaled.state == plain.state);
  CHECK(scaled.losses == plain.losses);
  CHECK(scaled.norms == plain.norms);
}

TEST_CASE("overflows halve the loss scale, and one at the minimum ends the run with its cause") {
  Setting s;
  s.ranks = 2, s.stage = 3;
  s.loss_scale = {.dynamic = true, .initial = 8, .window = 1000, .hysteresis = 2, .minimum = 2};
  const models::Model model = with_bad_gradient(2, not_a_number, [](uint32_t step) { return step > 0; });
  Steps steps(model, s);
  std::vector<double> next;
  for (int i = 0; i < 4; ++i) {
    steps.run();
    for (int r = 0; r < 2; ++r)
      CHECK(steps.control(r).persistent.loss_scale.scale == steps.control(0).persistent.loss_scale.scale);
    next.push_back(steps.control(1).persistent.loss_scale.scale);
  }
  CHECK(next == std::vector<double>{8, 8, 4, 2});
  CHECK_THROWS_AS(steps.run(), core::NumericError);
}

TEST_CASE("what survives a restart is listed by name, and a copy of it continues alike") {
  Setting s;
  s.ranks = 1;
  s.loss_scale = {.dynamic = true, .initial = 4, .window = 3, .hysteresis = 2};
  const models::Model model = make_toy(3, 12, 17, 5, false, false);
  Steps steps(model, s);
  steps.run();
  std::vector<std::string> names;
  constexpr uint32_t members = optimizer::most_members;
  const runtime::Persistent& now = steps.control(0).persistent;
  runtime::visit_fields(now, members, [&](const std::string& name, const auto&) { names.push_back(name); });
  CHECK(names == std::vector<std::string>{"updates", "beta1_power", "beta2_power", "updates_1", "beta1_power_1",
                                          "beta2_power_1", "updates_2", "beta1_power_2", "beta2_power_2", "updates_3",
                                          "beta1_power_3", "beta2_power_3", "loss_scale", "loss_scale_hysteresis",
                                          "loss_scale_iteration", "loss_scale_last_overflow"});
  // The copy goes through the text of a checkpoint. Every byte is named: nothing is left out of the list.
  const auto copy = [](const runtime::Persistent& persistent) {
    const std::string text = runtime::control_json(persistent, members).dump();
    return runtime::parse_control(runtime::checkpoint::Json::parse(text), members, "the copy");
  };
  const runtime::Persistent restarted = copy(now);
  CHECK(std::memcmp(&restarted, &now, sizeof now) == 0);
  CHECK(sizeof now == names.size() * 8);
  for (const double value : {0.1, std::nextafter(0.1, 1.0), 1e-310}) {
    runtime::Persistent odd = now;
    odd.progress[0].beta1_power = odd.progress[0].beta2_power = odd.loss_scale.scale = value;
    const runtime::Persistent same = copy(odd);
    CHECK(std::memcmp(&same, &odd, sizeof odd) == 0);
  }
}

TEST_CASE("fp16 training overflows, finds its loss scale and follows fp32") {
  const models::Model model = models::make_gpt2({2, 32, 2, 16, 61, 0, true});
  Setting s;
  s.ranks = 2, s.stage = 2, s.micro_batch = 4, s.steps = 4;
  const Outcome reference = run(model, s);
  s.compute = core::DType::f16;
  // A first scale that no fp16 gradient survives: it is halved until one does.
  s.loss_scale = {.dynamic = true, .initial = 0x1p40, .window = 1000, .hysteresis = 1};
  s.steps = 40;
  const Outcome outcome = run(model, s);
  size_t taken = 0;
  for (size_t step = 0; step + 1 < outcome.loss_scales.size(); ++step) {
    const bool finite = std::isfinite(outcome.norms[step]);
    CHECK(outcome.loss_scales[step + 1] == (finite ? outcome.loss_scales[step] : outcome.loss_scales[step] / 2));
    taken += finite;
  }
  CHECK(!std::isfinite(outcome.norms[0]));
  CHECK(outcome.loss_scales.back() < 0x1p30);
  CHECK(taken > 5);
  // With a scale that fits, losses, norms and weights stay near those of fp32.
  s.loss_scale = {.dynamic = false, .initial = 4096};
  s.steps = 4;
  const Outcome fixed = run(model, s);
  for (size_t step = 0; step < 4; ++step) {
    CHECK(fixed.losses[step] == Approx(reference.losses[step]).epsilon(2e-3));
    CHECK(fixed.norms[step] == Approx(reference.norms[step]).epsilon(2e-2));
  }
  CHECK(relative_l2(fixed.weights, reference.weights) < 1e-2);
}

}  // namespace zrt::skipped_steps_test

// fp8 products in whole programs.
#include "catch.h"
#include "models/kernels/gemm.h"
#include "runtime/harness.h"

namespace zrt::fp8_test {

namespace {

using namespace zrt;
using testing::Setting;

Setting setting(bool fp8) {
  Setting s;
  s.compute = core::DType::bf16, s.fp8 = fp8, s.ranks = 2, s.micro_batch = 2, s.eval = true;
  if (testing::left_to_processor(1)) s.steps = 2;
  return s;
}

models::Model model() {
  return models::make_gpt2({.layers = 2, .hidden = 48, .heads = 4, .sequence = 24, .vocab = 61});
}

}  // namespace

TEST_CASE(
    "a run with fp8 products has the same bits at every stage, other bits than one without, and a loss near its") {
  const models::Model gpt2 = model();
  const testing::Outcome plain = testing::run(gpt2, setting(false));
  std::string expected;
  for (int stage = 0; stage <= 3; ++stage) {
    Setting s = setting(true);
    s.stage = stage, s.overlap = stage % 2 == 1;
    INFO("stage " << stage);
    const testing::Outcome outcome = testing::run(gpt2, s);
    if (expected.empty()) expected = outcome.state;
    CHECK(outcome.state == expected);
    CHECK(outcome.state != plain.state);
    CHECK(outcome.planned == outcome.measured);
    for (size_t step = 0; step < plain.losses.size(); ++step) {
      CHECK(outcome.losses[step] == Approx(plain.losses[step]).epsilon(0.02));
    }
    CHECK(outcome.eval_loss == Approx(plain.eval_loss).epsilon(0.02));
  }
}

TEST_CASE("the workspaces of a plan hold the rounded operands of fp8 products") {
  const models::Model gpt2 = model();
  const runtime::Layout layout = testing::make_layout(gpt2, setting(true));
  const core::OnPlace here({layout.device, nullptr});
  const auto workspace = [](bool fp8) {
    models::GemmSpec spec{96, 48, 192, false, true, 192, 192, 48};
    spec.a = spec.b = spec.c = core::DType::bf16, spec.fp8 = fp8;
    return models::find_gemm(spec).workspace_bytes();
  };
  // A byte for each element at least.
  CHECK(workspace(true) >= workspace(false) + 192 * (96 + 48));
}

}  // namespace zrt::fp8_test

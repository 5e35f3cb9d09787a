// fp8 products in whole programs.
#include <algorithm>
#include <cmath>
#include <vector>

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

// Bounds what fp8 may move a loss by. Rounding to e4m3 makes a tensor 2^-4 · sqrt(2 ln 2 / 9) = 2.5 % of its norm wrong
// (models/rounded_path.h), both operands a product 3.5 %, and the nine products on the way to the logits these 10 %, by
// errors that are unrelated. Logits spread by 0.02 · sqrt(48) = 0.14 around zero at the start, some 0.2 after these
// steps. A token's loss moves by about its target's error, so a mean of 96 tokens by 0.1 · 0.2 / sqrt(96) = 0.002 in
// the root mean square, of which four times are allowed, and by half the errors' square, 0.0002. Gradients, behind
// twice as many products, are 20 % wrong at most where errors are amplified as there: so may be what the updates have
// moved.
double allowed(const std::vector<double>& losses, size_t step) {
  double moved = 0;
  for (size_t i = 0; i <= step; ++i) moved = std::max(moved, std::abs(losses[i] - losses[0]));
  return 4 * 0.002 + 0.0002 + 0.2 * moved;
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
      CHECK(std::abs(outcome.losses[step] - plain.losses[step]) < allowed(plain.losses, step));
    }
    CHECK(std::abs(outcome.eval_loss - plain.eval_loss) < allowed(plain.losses, plain.losses.size() - 1));
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

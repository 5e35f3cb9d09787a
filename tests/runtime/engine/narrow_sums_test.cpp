// Microbatches whose gradients are summed in bf16 (data_types.grad_accum_dtype).
#include <cmath>

#include "catch.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"

namespace zrt::narrow_sums_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Recompute;

namespace {

models::Model gpt2() {
  return models::make_gpt2({3, 48, 2, 16, 61, 0.1f, true});
}

Setting setting(uint32_t reduce_every) {
  Setting s;
  s.compute = core::DType::bf16, s.accumulation = 4, s.reduce_every = reduce_every, s.micro_batch = 1, s.steps = 3;
  s.narrow_sums = true, s.ranks = 2;
  return s;
}

uint64_t gradient_bytes(const Outcome& outcome) {
  uint64_t bytes = 0;
  for (const core::LedgerEntry& entry : outcome.plan.ledger) {
    if (entry.category == core::Category::grads) bytes += entry.bytes;
  }
  return bytes;
}

}  // namespace

TEST_CASE("sums of gradients in bf16 have the same bits whatever the stage, overlap, tier and recomputation") {
  const models::Model model = gpt2();
  for (const uint32_t reduce_every : {1u, 2u, 4u}) {
    const Outcome reference = run(model, setting(reduce_every));
    unsigned turn = 0;
    for (const NamedPlacing& placing : placings()) {
      Setting s = setting(reduce_every);
      s.stage = static_cast<int>(++turn % 4), s.overlap = turn % 3 != 0;
      s.placement = placing.place;
      s.recompute = {turn % 2 == 0 ? Recompute::full : Recompute::none};
      s.unit_elements = turn % 2 ? 3000 : 1 << 20;
      INFO("reduce_every " << reduce_every << ", " << placing.name << ", stage " << s.stage << ", turn " << turn);
      const Outcome outcome = run(model, s);
      CHECK(outcome.state == reference.state);
      CHECK(outcome.losses == reference.losses);
      CHECK(outcome.planned == outcome.measured);
      CHECK(outcome.planned_behind == outcome.measured_behind);
    }
  }
}

TEST_CASE("sums of gradients in bf16 have the bits of sums in fp32 where one microbatch is all there is to add") {
  Setting s = setting(1);
  s.accumulation = 1;
  const Outcome narrow = run(gpt2(), s);
  s.narrow_sums = false;
  CHECK(run(gpt2(), s).state == narrow.state);
}

TEST_CASE("sums of gradients in bf16 take half the memory and differ from those in fp32 by their rounding alone") {
  for (const uint32_t reduce_every : {1u, 4u}) {
    Setting s = setting(reduce_every);
    s.clip = 0;
    const Outcome narrow = run(gpt2(), s);
    s.narrow_sums = false;
    const Outcome wide = run(gpt2(), s);
    CHECK(narrow.state != wide.state);
    CHECK(2 * gradient_bytes(narrow) == gradient_bytes(wide));
    // Each of up to four sums rounds to 8 bits: 4 · 2⁻⁹ of each element at most, where partial sums are no larger than
    // the last; of the norm of all elements that is a bound with room for those that cancel.
    for (size_t i = 0; i < wide.norms.size(); ++i) CHECK(std::abs(narrow.norms[i] / wide.norms[i] - 1) < 4.0 / 512);
    for (size_t i = 0; i < wide.losses.size(); ++i) CHECK(std::abs(narrow.losses[i] - wide.losses[i]) < 1e-2);
  }
}

}  // namespace zrt::narrow_sums_test

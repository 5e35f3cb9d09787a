#include "catch.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"

namespace zrt::equivalence_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

struct Split {
  int ranks;
  uint32_t accumulation;
  int64_t micro_batch;
};

}  // namespace

TEST_CASE("meshes with the same global batch agree in fp32 after 20 steps") {
  const bool tied = GENERATE(false, true);
  const models::Model model = make_toy(3, 12, 17, 5, tied, false);
  Setting s;
  s.steps = 20;
  s.micro_batch = 12;
  const Outcome reference = run(model, s);
  CHECK(reference.losses.back() < reference.losses.front());
  for (const Split& split :
       {Split{1, 12, 1}, {1, 3, 4}, {2, 1, 6}, {2, 3, 2}, {3, 2, 2}, {3, 4, 1}, {4, 1, 3}, {4, 3, 1}, {6, 2, 1}}) {
    for (int stage = 0; stage < 4; ++stage) {
      if (!full_tests() && stage != (split.ranks + static_cast<int>(split.accumulation)) % 4) continue;
      s.ranks = split.ranks, s.accumulation = split.accumulation, s.micro_batch = split.micro_batch;
      s.reduce_every = stage < 2 ? split.accumulation : 1;
      s.stage = stage;
      const Outcome outcome = run(model, s);
      CAPTURE(tied, split.ranks, split.accumulation, split.micro_batch, stage);
      CHECK(relative_l2(outcome.weights, reference.weights) < 1e-5);
      CHECK(outcome.losses.back() == Approx(reference.losses.back()).epsilon(1e-6));
    }
  }
}

TEST_CASE("a different global batch does not agree") {
  const models::Model model = make_toy(3, 12, 17, 5, false, false);
  Setting s;
  s.steps = 20;
  s.micro_batch = 12;
  const Outcome reference = run(model, s);
  s.micro_batch = 11;
  CHECK(relative_l2(run(model, s).weights, reference.weights) > 1e-3);
}

}  // namespace zrt::equivalence_test

#include "catch.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"

namespace zrt::comm_volume_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::OpKind;

namespace {

uint64_t elements(const Outcome& outcome, OpKind kind) {
  const auto found = outcome.comm.find(kind);
  return found == outcome.comm.end() ? 0 : found->second.elements;
}

}  // namespace

TEST_CASE("the counters of every rank equal the closed form of its program") {
  for (int ranks : {1, 2, 3, 4}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (auto [accumulation, every] : {std::pair{1u, 1u}, {4u, 1u}, {4u, 2u}, {4u, 4u}}) {
        for (bool reuse : {false, true}) {
          const models::Model model = make_toy(3, 12, 17, 5, ranks == 3, stage == 2);
          Setting s;
          s.ranks = ranks, s.stage = stage, s.accumulation = accumulation, s.reduce_every = every;
          s.reuse_at_turn = reuse, s.overlap = reuse, s.unit_elements = 100, s.bucket = 250, s.steps = 3;
          const Outcome outcome = run(model, s);
          CAPTURE(ranks, stage, accumulation, every, reuse);
          CHECK(elements(outcome, OpKind::gather) == 3 * outcome.forecast.gather);
          CHECK(elements(outcome, OpKind::reduce_grad) == 3 * outcome.forecast.reduce_grad);
          CHECK(elements(outcome, OpKind::gather_grad) == 3 * outcome.forecast.gather_grad);
          // Every unit once per window.
          int64_t others = 0;
          for (const auto& unit : make_layout(model, s).units.units) others += unit.shard * (ranks - 1);
          CHECK(outcome.forecast.reduce_grad == static_cast<uint64_t>(others) * (accumulation / every));
        }
      }
    }
  }
}

TEST_CASE("a step moves 2, 2, 2 and 3 times the model at stages 0 to 3") {
  const models::Model model = make_toy(5, 24, 40, 4, false, false);
  for (core::DType type : {core::DType::f32, core::DType::bf16}) {
    for (uint64_t ranks : {1, 2, 3, 4}) {
      for (int64_t unit_elements : {64, 700, 100000}) {
        for (int stage = 0; stage < 4; ++stage) {
          Setting s;
          s.ranks = static_cast<int>(ranks), s.stage = stage, s.compute = type, s.steps = 2;
          s.reuse_at_turn = false, s.unit_elements = unit_elements, s.bucket = 2 * unit_elements;
          const Outcome outcome = run(model, s);
          uint64_t padded = 0;
          for (const auto& unit : make_layout(model, s).units.units) padded += static_cast<uint64_t>(unit.elements);
          const uint64_t received = elements(outcome, OpKind::gather) + elements(outcome, OpKind::reduce_grad) +
                                    elements(outcome, OpKind::gather_grad);
          CAPTURE(ranks, unit_elements, stage, core::dtype_name(type));
          CHECK(received * ranks == 2 * (ranks - 1) * padded * (stage == 3 ? 3 : 2));
          uint64_t bytes = 0;
          for (OpKind kind : {OpKind::gather, OpKind::reduce_grad, OpKind::gather_grad}) {
            if (outcome.comm.count(kind) != 0) bytes += outcome.comm.at(kind).bytes;
          }
          CHECK(bytes == received * core::dtype_size(type));
        }
      }
    }
  }
}

TEST_CASE("reuse at the turn saves one gather of the last block") {
  const models::Model model = make_toy(5, 24, 40, 4, false, false);
  Setting s;
  s.ranks = 2, s.stage = 3;
  auto gathers = [&](bool reuse) {
    s.reuse_at_turn = reuse;
    const runtime::Layout layout = make_layout(model, s);
    const runtime::ProgramSet set = runtime::compile(layout, {"init", "step"}).set;
    return testing::forecast_comm(set, set.program("step"), layout).gather;
  };
  CHECK(gathers(false) - gathers(true) == 1024 / 2);  // 24 × 40, padded
}

}  // namespace zrt::comm_volume_test

#include "catch.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"

namespace zrt::offload_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

models::Model toy(unsigned number) {
  return make_toy(4, 12, 17, 5, number % 2 == 1, number % 3 == 1);
}

Setting setting(unsigned number, int ranks, int stage) {
  Setting s;
  s.ranks = ranks, s.stage = stage;
  s.compute = number % 3 == 0 ? core::DType::f32 : core::DType::bf16;
  s.accumulation = number % 2 ? 1 : 4;
  s.reduce_every = number % 4 == 0 ? 2 : 1;
  s.unit_elements = number % 5 < 2 ? 100 : 100000;
  s.bucket = 2 * s.unit_elements;
  s.overlap = number % 2;
  s.steps = 3;
  s.eval = number % 3 == 1;
  return s;
}

void check_same(const Outcome& outcome, const Outcome& reference) {
  CHECK(outcome.state == reference.state);
  CHECK(outcome.losses == reference.losses);
  CHECK(outcome.norms == reference.norms);
  CHECK(outcome.eval_loss == reference.eval_loss);
}

}  // namespace

TEST_CASE("where states and activations are resident does not change a bit, and every tier holds what was planned") {
  unsigned number = 0;
  for (const NamedPlacing& placing : placings()) {
    for (int ranks : {1, 2, 3, 4}) {
      for (int stage = 0; stage < 4; ++stage, ++number) {
        // Emulated ranks take long, and do not differ by their number.
        if (!full_tests() && test::test_device() == core::DeviceKind::cuda && ranks > 2) continue;
        if (!full_tests() && ranks + stage > 3 && (number + static_cast<unsigned>(ranks)) % 3 != 0) continue;
        Setting s = setting(number, ranks, stage);
        INFO(placing.name << ", ranks " << ranks << ", stage " << stage << ", number " << number);
        const Outcome reference = run(toy(number), s);
        s.placement = placing.place;
        s.serialize = number % 4 == 3;
        const Outcome outcome = run(toy(number), s);
        check_same(outcome, reference);
        CHECK(outcome.measured == outcome.planned);
        CHECK(outcome.measured_behind == outcome.planned_behind);
        CHECK(outcome.moved == outcome.moved_forecast);
        CHECK(outcome.file_agrees);
      }
    }
  }
}

TEST_CASE("an optimizer on the host costs two bytes down and two up for each parameter, four down for fp32 gradients") {
  const models::Model model = make_toy(4, 12, 17, 5, false, false);
  for (int ranks : {1, 2, 4}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (uint32_t accumulation : {1u, 4u}) {
        Setting s;
        s.ranks = ranks, s.stage = stage, s.compute = core::DType::bf16, s.accumulation = accumulation;
        s.reduce_every = stage < 2 ? accumulation : 1;
        s.placement = [](const runtime::Layout& layout) {
          return uniform(layout, core::Tier::device, core::Tier::device, core::Tier::host, core::Tier::host,
                         core::Tier::device, core::Tier::host);
        };
        const runtime::Layout layout = make_layout(model, s);
        uint64_t elements = 0;  // that this rank updates
        for (const optimizer::Unit& unit : layout.units.units) {
          elements += static_cast<uint64_t>(unit.extent(unit.held.states));
        }
        INFO("ranks " << ranks << ", stage " << stage << ", accumulation " << accumulation);
        const Outcome outcome = run(model, s);
        CHECK(outcome.moved == outcome.moved_forecast);
        CHECK(outcome.moved.to_device == 2 * elements);
        // The decision, which updates read, goes down with the gradients.
        CHECK(outcome.moved.to_host == (accumulation == 1 ? 2 : 4) * elements + sizeof(runtime::Control));
        CHECK(outcome.moved.read + outcome.moved.written == 0);
      }
    }
  }
}

TEST_CASE("states on NVMe are read and written once a step") {
  const models::Model model = make_toy(4, 12, 17, 5, false, false);
  Setting s;
  s.compute = core::DType::bf16;
  s.placement = [](const runtime::Layout& layout) {
    return uniform(layout, core::Tier::device, core::Tier::device, core::Tier::nvme, core::Tier::nvme,
                   core::Tier::device, core::Tier::host);
  };
  uint64_t blocks = 0;  // of the master and two moments
  for (const optimizer::Unit& unit : make_layout(model, s).units.units) {
    blocks += 3 * ((static_cast<uint64_t>(unit.elements) * 4 + 4095) / 4096);
  }
  const Outcome outcome = run(model, s);
  CHECK(outcome.moved.read == 4096 * blocks);
  CHECK(outcome.moved.written == 4096 * blocks);
}

TEST_CASE("what moves through a tier takes the same memory there however many blocks a model has") {
  const auto peaks = [](unsigned blocks, const NamedPlacing& placing, bool overlap, bool early) {
    const models::Model model = make_toy(blocks, 12, 17, 5, false, false);
    Setting s;
    s.stage = 3, s.compute = core::DType::bf16, s.placement = placing.place;
    s.overlap = overlap, s.early_updates = early;
    return runtime::compile(make_layout(model, s), {"load", "step"}).plan.device().peak_bytes;
  };
  size_t placed = 0;
  for (const NamedPlacing& placing : placings()) {
    if (placing.name.rfind("all on", 0) != 0) continue;
    for (bool overlap : {false, true}) {
      for (bool early : {false, true}) {
        INFO(placing.name << ", overlap " << overlap << ", early updates " << early);
        // Red zones may pack a little worse; the states of one block take a tenth.
        CHECK(static_cast<double>(peaks(24, placing, overlap, early)) <
              1.1 * static_cast<double>(peaks(8, placing, overlap, early)));
        ++placed;
      }
    }
  }
  CHECK(placed == 16);
}

}  // namespace zrt::offload_test

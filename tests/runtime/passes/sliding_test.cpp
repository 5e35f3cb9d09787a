#include "runtime/passes/sliding.h"

#include <set>

#include "catch.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"

namespace zrt::sliding_test {

using namespace zrt;
using namespace zrt::testing;
using core::Tier;
using runtime::SlidingLayers;

namespace {

constexpr uint32_t layers = 6;

models::Model toy(bool tied = false) {
  return make_toy(layers, 12, 17, 5, tied, false);
}

struct Window {
  uint32_t layers, together;
  bool ahead;  // of their use some may come
  uint32_t at_once() const { return std::min(sliding_test::layers, layers + (ahead ? together : 0)); }
};

std::vector<Window> windows() {
  std::vector<Window> all;
  for (uint32_t k = 1; k < layers; ++k) {
    for (uint32_t moved = 1; moved <= k; ++moved) {
      for (bool ahead : {false, true}) all.push_back({k, moved, ahead});
    }
  }
  return all;
}

// All states of layers in a tier, and `update` for them; what belongs to no layer stays on the device.
Placing sliding(Window window, Tier weight, Tier states, Tier update) {
  return [=](const runtime::Layout& layout) {
    runtime::Placement placement;
    for (size_t u = 0; u < layout.units.units.size(); ++u) {
      const std::vector<uint32_t>& blocks = layout.units.units[u].blocks;
      const bool layer = blocks.front() > 0 && blocks.back() < layout.model->blocks.size() - 1;
      placement.units.push_back(
          layer ? runtime::UnitTiers{weight, states, states, std::vector(kinds_of(layout, u), states), update}
                : runtime::UnitTiers{Tier::device, Tier::device, Tier::device,
                                     std::vector(kinds_of(layout, u), Tier::device), Tier::device});
    }
    placement.sliding = {window.layers, window.together};
    return placement;
  };
}

void slide(Setting& s, Window window, Tier weight, Tier states, Tier update) {
  s.placement = sliding(window, weight, states, update);
  s.prefetch = window.ahead ? std::nullopt : std::optional<int64_t>(0);
}

// Returns the bytes of a layer's weights that a rank has.
uint64_t block_bytes(const runtime::Layout& layout) {
  uint64_t bytes = 0;
  for (uint32_t u : layout.units.blocks[1]) {
    const optimizer::Unit& unit = layout.units.units[u];
    bytes += static_cast<uint64_t>(unit.extent(unit.held.weights)) * core::dtype_size(layout.compute);
  }
  return bytes;
}

// The most weights of layers that are on the device at any op of a program.
uint64_t most_live(const runtime::Compiled& compiled, std::string_view phase) {
  constexpr auto weights = static_cast<size_t>(core::Category::weights);
  uint64_t most = 0, kept = 0;
  for (const runtime::Buffer& buffer : compiled.set.buffers) {
    const bool stays = buffer.category == core::Category::weights && buffer.life != runtime::Life::transient;
    if (stays && buffer.tier == Tier::device) kept += buffer.bytes;
  }
  for (const runtime::LivePoint& point : live_bytes(compiled.set, compiled.set.program(phase))) {
    most = std::max(most, point.tiers[0][weights] - kept);
  }
  return most;
}

Setting setting(unsigned number) {
  Setting s;
  s.ranks = 1 + static_cast<int>(number / 4 % 2), s.stage = static_cast<int>(number % 4);
  s.compute = number % 3 == 0 ? core::DType::f32 : core::DType::bf16;
  s.accumulation = number % 5 < 2 ? 1 : 5;
  s.reduce_every = number % 5 == 3 ? 5 : 1;
  s.unit_elements = number % 7 < 3 ? 100 : 100000;
  s.overlap = number % 2 == 1;
  s.steps = 3;
  s.eval = number % 3 == 1;
  if (number % 4 == 1) s.recompute = {runtime::Recompute::none, runtime::Recompute::full};
  if (number % 6 == 1) s.order = runtime::MicrobatchOrder::layer_major;
  return s;
}

}  // namespace

TEST_CASE("layers that slide come and go as many at a time as move together, and none move at a turn") {
  Setting s;
  slide(s, {3, 2, false}, Tier::host, Tier::host, Tier::host);
  const runtime::Layout layout = make_layout(toy(), s);
  runtime::StateBuffers state;
  state.weight.resize(layout.units.units.size());
  SlidingLayers::Segment step;
  const std::vector<uint32_t> order{0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0};
  for (size_t v = 0; v < order.size(); ++v) step.visits.push_back({order[v], 10 * v, 10 * v + 5});
  const auto plan = SlidingLayers(layout, state).plan(std::vector<SlidingLayers::Segment>{{}, step});
  REQUIRE(plan.size() == 2);
  CHECK(plan[0].moves.empty());
  struct Expected {
    size_t op;
    std::vector<uint32_t> leave, come;
  };
  // The last move has one layer to bring: the fourth from below is done first.
  const std::vector<Expected> expected{
      {0, {}, {0, 1, 2}}, {16, {0, 1}, {3, 4}}, {26, {2}, {5}}, {66, {5, 4}, {2, 1}}, {76, {3}, {0}}};
  REQUIRE(plan[1].moves.size() == expected.size());
  for (size_t m = 0; m < expected.size(); ++m) {
    INFO("move " << m);
    CHECK(plan[1].moves[m].op == expected[m].op);
    CHECK(plan[1].moves[m].leave == expected[m].leave);
    CHECK(plan[1].moves[m].come == expected[m].come);
  }
  CHECK(plan[1].empties);
}

TEST_CASE("layers that slide change no bit, and every tier holds what was planned") {
  unsigned number = 0;
  for (const Window window : windows()) {
    for (const Tier states : {Tier::host, Tier::device, Tier::nvme}) {
      ++number;
      if (left_to_processor(number)) continue;
      Setting s = setting(number);
      const models::Model model = toy(number % 2 == 1);
      INFO("layers " << window.layers << ", moved " << window.together << ", ahead " << window.ahead << ", number "
                     << number << ", ranks " << s.ranks << ", stage " << s.stage);
      const Outcome reference = run(model, s);
      slide(s, window, states == Tier::nvme ? Tier::nvme : Tier::host, states,
            states == Tier::device ? Tier::device : Tier::host);
      s.serialize = number % 5 == 4;
      const Outcome outcome = run(model, s);
      CHECK(outcome.state == reference.state);
      CHECK(outcome.losses == reference.losses);
      CHECK(outcome.norms == reference.norms);
      CHECK(outcome.eval_loss == reference.eval_loss);
      CHECK(outcome.measured == outcome.planned);
      CHECK(outcome.measured_behind == outcome.planned_behind);
      CHECK(outcome.moved == outcome.moved_forecast);
    }
  }
}

TEST_CASE("of layers that slide the device has as many as are asked for, and those that move beside them if they may") {
  unsigned number = 0, compared = 0;
  for (const Window window : windows()) {
    for (unsigned variant = 0; variant < 24; ++variant) {
      Setting s = setting(++number + variant);
      slide(s, window, number % 3 == 0 ? Tier::nvme : Tier::host, number % 2 ? Tier::host : Tier::device,
            number % 2 ? Tier::host : Tier::device);
      const runtime::Layout layout = make_layout(toy(), s);
      const runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "eval"});
      INFO("layers " << window.layers << ", moved " << window.together << ", ahead " << window.ahead << ", number "
                     << number << ", variant " << variant << ", ranks " << s.ranks << ", stage " << s.stage);
      CHECK(most_live(compiled, "step") == window.at_once() * block_bytes(layout));
      CHECK(most_live(compiled, "eval") == window.at_once() * block_bytes(layout));
      ++compared;
    }
  }
  CHECK(compared == 24 * windows().size());
}

TEST_CASE("weights of layers that slide take as many places as have room, and each layer the place of one that left") {
  unsigned number = 0;
  for (const Window window : windows()) {
    for (unsigned variant = 0; variant < 24; ++variant) {
      Setting s = setting(++number + variant);
      slide(s, window, number % 3 == 0 ? Tier::nvme : Tier::host, Tier::host, Tier::host);
      const runtime::Layout layout = make_layout(toy(), s);
      const runtime::Compiled compiled = runtime::compile(layout, {"init", "step", "eval", "export"});
      std::set<uint64_t> places;
      uint64_t first = ~uint64_t{0}, end = 0;
      for (const runtime::Buffer& buffer : compiled.set.buffers) {
        const bool copy = buffer.category == core::Category::weights && buffer.life == runtime::Life::transient;
        if (!copy || buffer.bytes == 0) continue;
        places.insert(buffer.offset);
        first = std::min(first, buffer.offset), end = std::max(end, buffer.offset + buffer.stride());
      }
      INFO("layers " << window.layers << ", moved " << window.together << ", ahead " << window.ahead << ", number "
                     << number << ", variant " << variant << ", ranks " << s.ranks << ", stage " << s.stage);
      const uint64_t red_zones = 64 * layout.units.blocks[1].size();
      CHECK(places.size() == window.at_once() * layout.units.blocks[1].size());
      CHECK(end - first == window.at_once() * (block_bytes(layout) + red_zones));
    }
  }
}

TEST_CASE("a step brings as many layers as have room, and each microbatch the others twice") {
  for (const Window window : windows()) {
    for (uint32_t accumulation : {1u, 2u, 7u}) {
      Setting s;
      s.accumulation = accumulation, s.steps = 2;
      slide(s, window, Tier::host, Tier::host, Tier::host);
      const runtime::Layout layout = make_layout(toy(), s);
      INFO("layers " << window.layers << ", moved " << window.together << ", ahead " << window.ahead
                     << ", microbatches " << accumulation);
      const Outcome outcome = run(toy(), s);
      const uint32_t at_once = window.at_once(), others = layers - at_once;
      // Each microbatch but the first adds to gradients that wait on the host, and are as large as weights.
      const uint32_t gradients = (accumulation - 1) * layers;
      CHECK(outcome.moved.to_device == (at_once + 2 * accumulation * others + gradients) * block_bytes(layout));
    }
  }
}

}  // namespace zrt::sliding_test

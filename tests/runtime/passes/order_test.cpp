// The order in which microbatches go through the blocks, and what is computed again, change no bit.
#include <tuple>

#include "catch.h"
#include "core/error.h"
#include "runtime/ops/spec.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"

namespace zrt::order_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::MicrobatchOrder;
using runtime::OpKind;
using runtime::Recompute;

namespace {

const auto automatic = MicrobatchOrder::automatic, by_microbatch = MicrobatchOrder::microbatch_major,
           by_layer = MicrobatchOrder::layer_major;
constexpr auto full = Recompute::full, selective = Recompute::selective, none = Recompute::none;

// The settings that decide about bits.
struct Group {
  int ranks;
  uint32_t accumulation, reduce_every;
  core::DType type = core::DType::f32;
};

Setting base(const Group& g, int stage) {
  Setting s;
  s.ranks = g.ranks, s.accumulation = g.accumulation, s.reduce_every = g.reduce_every, s.compute = g.type;
  s.stage = stage;
  s.steps = 3;
  return s;
}

void check_equal(const models::Model& model, const Setting& s, const Outcome& reference) {
  INFO(s.ranks << " ranks, " << s.accumulation << "/" << s.reduce_every << ", stage " << s.stage << ", order "
               << s.order->name() << ", overlap " << s.overlap << ", units of " << s.unit_elements << ", recompute "
               << (s.recompute.empty() ? -1 : static_cast<int>(s.recompute.front())));
  const Outcome outcome = run(model, s);
  CHECK(outcome.state == reference.state);
  CHECK(outcome.losses == reference.losses);
  CHECK(outcome.norms == reference.norms);
  CHECK(outcome.planned == outcome.measured);
}

// Every order and stage; what is computed again, overlap and unit sizes change from one to the next.
void check_orders(const models::Model& model, const Group& g, bool microbatch_major = true) {
  const std::vector<std::vector<Recompute>> kept{{full}, {}, {selective}, {none, full, selective}};
  const Outcome reference = run(model, base(g, 0));
  unsigned n = static_cast<unsigned>(g.ranks) + g.reduce_every;
  for (int stage = 0; stage < 4; ++stage) {
    for (const MicrobatchOrder* order : {automatic, by_microbatch, by_layer}) {
      if (order == by_microbatch && !microbatch_major) continue;
      Setting s = base(g, stage);
      s.order = order;
      s.recompute = kept[n % 4];
      s.overlap = n % 3 != 0;
      s.reuse_at_turn = n % 5 != 0;
      s.unit_elements = n % 2 == 0 ? 100 : 100000;
      s.bucket = 2 * s.unit_elements;
      if (n++ % 7 == 0) s.prefetch = 3 * s.unit_elements;
      check_equal(model, s, reference);
    }
  }
}

const std::vector<Group> groups{{1, 4, 1}, {2, 4, 2, core::DType::bf16}, {3, 4, 4}, {4, 6, 3}, {2, 3, 1}, {2, 5, 5}};

models::Model tiny_gpt2(bool tied) {
  return models::make_gpt2({3, 48, 2, 16, 61, 0.1f, tied});
}

models::Model tiny_llama(bool tied) {
  models::LlamaConfig config;
  config.layers = 3, config.hidden = 48, config.heads = 4, config.kv_heads = 2, config.ffn = 80;
  config.head_dim = tied ? 8 : 0;  // less than hidden in all
  config.sequence = 16, config.vocab = 61, config.tied = tied;
  return models::make_llama(config);
}

size_t count(const runtime::Program& program, OpKind kind) {
  size_t count = 0;
  runtime::for_each_execution(program, ~0u, [&](runtime::OpId id, uint32_t) { count += program.ops[id].kind == kind; });
  return count;
}

runtime::Compiled step_of(const models::Model& model, const Setting& s) {
  return runtime::compile(make_layout(model, s), {"init", "step", "export"});
}

}  // namespace

TEST_CASE("No order and no recomputation changes a bit of the toy model, whatever the blocks share") {
  for (const Group& g : groups) {
    for (bool tied : {false, true}) {
      check_orders(make_toy(4, 12, 17, 5, tied, false), g);
      check_orders(make_toy(4, 12, 17, 5, tied, true), g, g.reduce_every == 1);
    }
  }
}

TEST_CASE("No order and no recomputation changes a bit of GPT-2 with dropout") {
  for (const Group& g : {Group{2, 4, 2}, Group{3, 3, 1, core::DType::bf16}, Group{1, 2, 2, core::DType::bf16}}) {
    for (bool tied : {false, true}) check_orders(tiny_gpt2(tied), g);
  }
}

TEST_CASE("No order and no recomputation changes a bit of Llama") {
  check_orders(tiny_llama(false), {2, 4, 2, core::DType::bf16});
  check_orders(tiny_llama(true), {4, 4, 1});
}

TEST_CASE("Wherever states and activations are resident, no order and no recomputation changes a bit") {
  const Group g{2, 4, 2, core::DType::bf16};
  const std::vector<std::vector<Recompute>> kept{{full}, {selective}, {none, full, selective}};
  for (bool tied : {false, true}) {
    const models::Model gpt2 = tiny_gpt2(tied), toy = make_toy(4, 12, 17, 5, tied, false);
    for (const models::Model* model : {&gpt2, &toy}) {
      const Outcome reference = run(*model, base(g, 0));
      unsigned n = tied ? 5 : 0;
      for (const NamedPlacing& placing : placings()) {
        Setting s = base(g, static_cast<int>(n % 4));
        s.order = std::array{by_layer, automatic, by_microbatch}[n / 2 % 3];
        s.recompute = kept[n % 3];
        s.placement = placing.place;
        s.overlap = n++ % 2 == 0;
        INFO(placing.name);
        check_equal(*model, s, reference);
        // Buffers of what is made again lie near the backward that reads it.
        for (const runtime::Buffer& buffer : step_of(*model, s).set.buffers) {
          if (buffer.category == core::Category::recompute) CHECK(buffer.tier == core::Tier::device);
        }
      }
    }
  }
}

TEST_CASE("A microbatch-major step ends a microbatch before the next one, a layer-major step a block") {
  for (int stage : {0, 2, 3}) {
    for (bool tied : {false, true}) {
      const models::Model model = make_toy(3, 12, 17, 5, tied, false);
      Setting s = base({2, 6, 3}, stage);
      s.order = by_microbatch;
      const runtime::Compiled rows = step_of(model, s);
      uint32_t last = 0;
      runtime::for_each_execution(rows.set.program("step"), ~0u, [&](runtime::OpId id, uint32_t turn) {
        const runtime::Op& op = rows.set.program("step").ops[id];
        if (!runtime::runs_block(op.kind) || (tied && op.block == 0)) return;
        CHECK(op.microbatch.at(turn) >= last);
        last = op.microbatch.at(turn);
      });
      CHECK(last == 5);
      s.order = by_layer;
      const runtime::Compiled columns = step_of(model, s);
      int at = -1;
      for (const runtime::Op& op : columns.set.program("step").ops) {
        if (!runtime::runs_block(op.kind)) continue;
        const int block = op.kind == OpKind::forward ? static_cast<int>(op.block) : 9 - static_cast<int>(op.block);
        CHECK(block >= at);
        at = block;
      }
      CHECK(at == 9);
    }
  }
}

TEST_CASE(
    "Left to itself a step goes microbatch by microbatch where ranks have whole gradients, else by layer in a window") {
  const models::Model model = make_toy(4, 12, 17, 5, false, false);
  for (int stage : {0, 1, 2, 3}) {
    const auto peak = [&](const MicrobatchOrder* order, uint32_t every) {
      Setting s = base({2, 4, every}, stage);
      s.order = order;
      return step_of(model, s).plan.device().peak_bytes;
    };
    CAPTURE(stage);
    const uint64_t alone = peak(by_microbatch, 4), together = peak(by_layer, 4), left = peak(automatic, 4);
    CHECK(alone < together);
    CHECK(left == (stage < 2 ? alone : together));
    if (stage < 2) continue;
    CHECK(peak(automatic, 2) < together);
    CHECK(peak(automatic, 2) > peak(by_microbatch, 2));
  }
}

TEST_CASE("A layer-major step gathers a block's weights once per direction, however many microbatches it has") {
  const models::Model model = make_toy(4, 12, 17, 5, true, false);
  Setting one = base({2, 1, 1}, 3);
  one.unit_elements = 100;
  for (bool reuse : {false, true}) {
    for (uint32_t every : {1u, 2u, 6u}) {
      Setting s = base({2, 6, every}, 3);
      s.unit_elements = 100;
      s.order = by_layer;
      s.reuse_at_turn = one.reuse_at_turn = reuse;
      s.recompute = {full};
      const runtime::Compiled alone = step_of(model, one), six = step_of(model, s);
      CHECK(count(six.set.program("step"), OpKind::gather) == count(alone.set.program("step"), OpKind::gather));
      CHECK(count(six.set.program("step"), OpKind::reduce_grad) ==
            6 / every * count(alone.set.program("step"), OpKind::reduce_grad));
    }
  }
}

TEST_CASE("A microbatch-major window of a model whose middle blocks share units is refused by name") {
  const models::Model model = make_toy(4, 12, 17, 5, false, true);
  for (int stage : {0, 3}) {
    Setting s = base({2, 4, 2}, stage);
    s.order = by_microbatch;
    CHECK_THROWS_WITH(step_of(model, s),
                      Catch::Matchers::Contains("memory.microbatch_order") && Catch::Matchers::Contains("layer_major"));
    CHECK_THROWS_AS(step_of(model, s), core::ConfigError);
    s.reduce_every = 1;
    CHECK_NOTHROW(step_of(model, s));
  }
}

}  // namespace zrt::order_test

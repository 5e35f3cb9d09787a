// Recomputation: what it saves in memory and what the verifier demands of it.
#include <algorithm>

#include "catch.h"
#include "core/error.h"
#include "models/kernels/gemm.h"
#include "runtime/program/block_plan.h"
#include "runtime/verify/verifier.h"
#include "tests/runtime/harness.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::recompute_test {

using namespace zrt;
using namespace zrt::testing;
using Catch::Matchers::Contains;
using core::Category;
using runtime::OpId;
using runtime::OpKind;
using runtime::Program;
using runtime::Recompute;
using runtime::Role;

namespace {

constexpr int64_t layers = 4, hidden = 48, heads = 2, sequence = 16, batch = 2, ffn = 80;

struct Case {
  runtime::Layout layout;
  runtime::Compiled compiled;
  Program& step() { return program_of(compiled.set, "step"); }
};

Case compiled(const models::Model& model, Recompute how, uint32_t accumulation = 1,
              const runtime::MicrobatchOrder* order = runtime::MicrobatchOrder::automatic, int stage = 0) {
  Setting s;
  s.recompute = {how};
  s.accumulation = s.reduce_every = accumulation;
  s.order = order, s.stage = stage, s.ranks = stage == 0 ? 1 : 2;
  s.micro_batch = batch;
  Case result{make_layout(model, s), {}};
  result.compiled = runtime::compile(result.layout, {"init", "step", "export"});
  return result;
}

models::Model gpt2() {
  return models::make_gpt2({layers, hidden, heads, sequence, 61, 0, true});
}

models::Model llama() {
  models::LlamaConfig config;
  config.layers = layers, config.hidden = hidden, config.heads = heads, config.kv_heads = heads, config.ffn = ffn;
  config.sequence = sequence, config.vocab = 61;
  return models::make_llama(config);
}

// Live bytes of a category when the first op of this name starts, at turn 0.
uint64_t live(const Case& c, const std::string& op, Category category) {
  const Program& step = c.compiled.set.program("step");
  for (const runtime::LivePoint& point : runtime::live_bytes(c.compiled.set, step)) {
    if (step.ops[point.op].name == op) return point.tiers[0][static_cast<size_t>(category)];
  }
  throw std::runtime_error("there is no op " + op);
}

// Bytes of fp32 elements; all are multiples of 64 here, so that nothing is lost between them.
constexpr uint64_t rows = batch * sequence, row = rows * hidden * 4, statistic = rows * 4;
constexpr uint64_t gpt2_statistics = (4 + heads) * statistic, llama_statistics = (2 + heads) * statistic;
constexpr uint64_t llama_saved = llama_statistics + 5 * row + 2 * rows * ffn * 4;
// A product that applies GELU keeps what comes before it and behind it.
uint64_t gpt2_wide() {
  return (models::products_fuse() ? 8 : 4) * row;
}
uint64_t gpt2_saved() {
  return gpt2_statistics + 5 * row + gpt2_wide();
}
constexpr uint64_t head_saved[] = {2 * statistic + row, statistic + row};

}  // namespace

TEST_CASE("A block that keeps nothing holds what its backward reads in its forward and in front of its backward only") {
  struct {
    models::Model model;
    uint64_t saved, head;
  } cases[] = {{gpt2(), gpt2_saved(), head_saved[0]}, {llama(), llama_saved, head_saved[1]}};
  for (const auto& [model, saved, head] : cases) {
    const std::string last = model.blocks[layers]->name();
    const Case all = compiled(model, Recompute::none), none = compiled(model, Recompute::full);
    // When the head starts: the outputs of the embedding and of all layers, and what these and the head save.
    const uint64_t outputs = (layers + 1) * row;
    CHECK(live(all, "forward head", Category::activations) == outputs + layers * saved + head);
    CHECK(live(none, "forward head", Category::activations) == outputs + head);
    CHECK(live(none, "forward head", Category::recompute) == 0);
    CHECK(live(all, "backward " + last, Category::recompute) == 0);
    for (const char* pass : {"forward ", "recompute ", "backward "}) {
      CHECK(live(none, pass + last, Category::recompute) == saved);
    }
    const auto& before = all.compiled.plan.device();
    const auto& after = none.compiled.plan.device();
    CHECK(after.live_peak_bytes < before.live_peak_bytes);
  }
}

TEST_CASE("A block that computes nothing again keeps the outputs of its norms and of its activation function, too") {
  struct {
    models::Model model;
    uint64_t saved, outputs, head;
  } cases[] = {{gpt2(), gpt2_saved(), 2 * row + (models::products_fuse() ? 0 : 4 * row), head_saved[0]},
               {llama(), llama_saved, 2 * row + rows * ffn * 4, head_saved[1]}};
  for (const auto& [model, saved, outputs, head] : cases) {
    const Case all = compiled(model, Recompute::never);
    CHECK(live(all, "forward head", Category::activations) == (layers + 1) * row + layers * (saved + outputs) + head);
    CHECK(live(all, "backward " + model.blocks[layers]->name(), Category::recompute) == 0);
  }
}

TEST_CASE("A block that keeps a selection holds the MLP's input of one block at a time") {
  struct {
    models::Model model;
    uint64_t saved, wide, head;
  } cases[] = {{gpt2(), gpt2_saved(), gpt2_wide(), head_saved[0]},
               {llama(), llama_saved, 2 * rows * ffn * 4, head_saved[1]}};
  for (const auto& [model, saved, wide, head] : cases) {
    const Case some = compiled(model, Recompute::selective);
    CHECK(live(some, "forward head", Category::activations) == (layers + 1) * row + layers * (saved - wide) + head);
    CHECK(live(some, "forward head", Category::recompute) == 0);
    CHECK(live(some, "backward " + model.blocks[layers]->name(), Category::recompute) == wide);
  }
}

TEST_CASE("With all microbatches through a block at a time, one of them is computed again at a time") {
  const models::Model model = gpt2();
  const Case all = compiled(model, Recompute::none, 3, runtime::MicrobatchOrder::layer_major);
  const Case none = compiled(model, Recompute::full, 3, runtime::MicrobatchOrder::layer_major);
  CHECK(live(all, "forward head", Category::activations) - live(none, "forward head", Category::activations) ==
        3 * layers * gpt2_saved());
  CHECK(live(none, "backward h.2", Category::recompute) == gpt2_saved());
}

TEST_CASE("Embedding and head keep all, and so do blocks that have nothing to leave out") {
  const models::Model model = gpt2(), toy = make_toy(3, 12, 17, 5, true, false);
  const Case all = compiled(model, Recompute::full);
  for (const runtime::Op& op : all.compiled.set.program("step").ops) {
    if (op.kind == OpKind::recompute) CHECK((op.block > 0 && op.block <= layers));
  }
  CHECK(runtime::BlockPlan(all.layout, 0).recompute() == Recompute::none);
  CHECK(runtime::BlockPlan(all.layout, 1).recompute() == Recompute::full);
  CHECK(runtime::BlockPlan(all.layout, layers + 1).recompute() == Recompute::none);
  const Case kept = compiled(toy, Recompute::selective);
  CHECK(runtime::BlockPlan(kept.layout, 1).recompute() == Recompute::none);
  CHECK(kept.compiled.set.xxh3() == compiled(toy, Recompute::none).compiled.set.xxh3());
}

TEST_CASE("A recompute and its backward use the weights of one gather") {
  const models::Model model = gpt2();
  const auto gathers = [](const Case& c) {
    const auto& ops = c.compiled.set.program("step").ops;
    return std::count_if(ops.begin(), ops.end(), [](const runtime::Op& op) { return op.kind == OpKind::gather; });
  };
  const auto automatic = runtime::MicrobatchOrder::automatic;
  CHECK(gathers(compiled(model, Recompute::full, 1, automatic, 3)) ==
        gathers(compiled(model, Recompute::none, 1, automatic, 3)));
}

TEST_CASE("A reduction runs beside the next block's recompute and its backward") {
  const models::Model model = gpt2();
  Setting s;
  s.ranks = 2, s.stage = 3, s.overlap = true, s.recompute = {Recompute::full};
  const runtime::Layout layout = make_layout(model, s);
  const runtime::Compiled compiled = runtime::compile(layout, {"init", "step"});
  const Program& step = compiled.set.program("step");
  const auto waits_for_reduction_of = [&](const char* op, size_t block) {
    const auto& waits = step.ops[find_op(step, op)].waits;
    return std::any_of(waits.begin(), waits.end(), [&](OpId wait) {
      return step.ops[wait].kind == OpKind::reduce_grad && step.ops[wait].units == layout.units.blocks[block];
    });
  };
  CHECK_FALSE(waits_for_reduction_of("recompute h.1", 3));
  CHECK_FALSE(waits_for_reduction_of("backward h.1", 3));
  CHECK(waits_for_reduction_of("recompute h.0", 3));
}

TEST_CASE("The verifier refuses a step without a recompute, and one of another microbatch, block or time") {
  const models::Model model = gpt2();
  for (Recompute how : {Recompute::full, Recompute::selective}) {
    const auto order = runtime::MicrobatchOrder::layer_major;
    const Case right = compiled(model, how, 2, order);
    const auto refused = [&](auto breaks, const std::string& message) {
      Case c = right;
      breaks(c.step());
      CHECK_THROWS_WITH(runtime::verify(c.compiled.set, c.layout), Contains(message));
    };
    // The first backward of the last layer, so that nothing has overwritten what its forward left.
    const std::string name = "recompute h.3";
    const Program& step = right.compiled.set.program("step");
    const OpId first = find_op(step, name);
    OpId second = first + 1;
    while (step.ops[second].name != name) ++second;

    refused([&](Program& p) { drop_op(p, first); }, "h.3");
    refused([&](Program& p) { drop_op(p, second); }, "microbatch 0");
    refused([&](Program& p) { p.ops[first].microbatch.first = 1; }, "microbatch");
    refused([&](Program& p) { swap_ops(p, first, second); }, "microbatch");
    refused([&](Program& p) { insert_op(p, second, p.ops[second]); }, "a second time");
    // A forward that keeps less has nothing to read of what another one has kept.
    refused([&](Program& p) { p.ops[first].kind = OpKind::forward; },
            how == Recompute::full ? "where 'recompute'" : "reads a buffer as its saved");
    refused([&](Program& p) { p.ops[first].block -= 1, p.ops[first].units = p.ops[find_op(p, "backward h.2")].units; },
            "h.2");
  }
  // A block that keeps all is not computed again.
  Case c = compiled(model, Recompute::full);
  c.layout.placement.recompute[2] = Recompute::none;
  CHECK_THROWS_WITH(runtime::verify(c.compiled.set, c.layout), Contains("recompute"));
}

TEST_CASE("A serialized run that computes again holds exactly the live bytes the plan says") {
  for (Recompute how : {Recompute::full, Recompute::selective}) {
    for (auto order : {runtime::MicrobatchOrder::microbatch_major, runtime::MicrobatchOrder::layer_major}) {
      for (int stage : {0, 3}) {
        Setting s;
        s.ranks = 2, s.stage = stage, s.accumulation = 4, s.reduce_every = 2, s.serialize = true, s.steps = 2;
        s.recompute = {how}, s.order = order, s.eval = true;
        const Outcome outcome = run(gpt2(), s);
        for (const runtime::LivePeak& live : outcome.live) {
          CHECK(live.total == outcome.plan.device().live_peak_bytes);
          CHECK(live.categories == outcome.plan.device().categories);
        }
        CHECK(outcome.planned == outcome.measured);
      }
    }
  }
}

}  // namespace zrt::recompute_test

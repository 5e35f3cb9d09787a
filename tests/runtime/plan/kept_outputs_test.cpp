// Memory that a budget leaves is spent on what the backward would make again.
#include "runtime/plan/kept_outputs.h"

#include <algorithm>

#include "catch.h"
#include "runtime/cost/cost.h"
#include "runtime/cost/nominal_cluster.h"
#include "runtime/plan/fit.h"
#include "runtime/program/placement_rules.h"
#include "tests/runtime/harness.h"

namespace zrt::kept_outputs_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Recompute;

namespace {

constexpr int64_t layers = 4;

models::Model gpt2() {
  return models::make_gpt2({layers, 48, 2, 16, 61, 0.1f, true});
}

models::Model llama() {
  models::LlamaConfig config;
  config.layers = layers, config.hidden = 48, config.heads = 2, config.kv_heads = 1, config.ffn = 80;
  config.sequence = 16, config.vocab = 61;
  return models::make_llama(config);
}

Setting setting() {
  Setting s;
  s.ranks = 2, s.stage = 2, s.compute = core::DType::bf16, s.accumulation = 2, s.steps = 2;
  return s;
}

runtime::Layout open_layout(const models::Model& model, const Setting& s) {
  runtime::Layout layout = make_layout(model, s);
  layout.open_recompute = true;
  return layout;
}

runtime::Compiled fit(const runtime::Layout& layout, const Setting& s, std::optional<uint64_t> device) {
  const runtime::Config config =
      runtime::parse_config(R"({"train_micro_batch_size_per_gpu": 1, "model": {"preset": "gpt2-tiny"}})", "t", {}, 1);
  runtime::Limits limits;
  if (device) limits.of(core::Tier::device) = runtime::Limit{*device, "the test"};
  return std::move(runtime::fit(config, {layout}, {phases_of(s), limits, limits, {}, true, true}).stages.front());
}

uint64_t peak(const models::Model& model, Setting s, std::vector<Recompute> how) {
  s.recompute = std::move(how);
  return runtime::compile(make_layout(model, s), phases_of(s), {}, false).plan.device().peak_bytes;
}

// Layers, the first of which is block 1, that keep outputs.
std::vector<bool> kept(const runtime::Layout& layout) {
  std::vector<bool> result;
  for (size_t block : runtime::layer_blocks(*layout.model)) {
    result.push_back(layout.placement.keeps(block) == Recompute::never);
  }
  return result;
}

}  // namespace

TEST_CASE("the last layers keep outputs of norms and activation functions, as many as a budget has room for") {
  for (const models::Model& model : {gpt2(), llama()}) {
    const Setting s = setting();
    const Outcome reference = run(model, s);
    std::vector<uint64_t> needed;  // by layers that keep outputs
    for (size_t n = 0; n <= layers; ++n) {
      std::vector<Recompute> how(layers + 2, Recompute::none);
      std::fill(how.begin() + layers + 1 - static_cast<std::ptrdiff_t>(n), how.begin() + layers + 1, Recompute::never);
      needed.push_back(peak(model, s, how));
    }
    REQUIRE(needed.front() < needed.back());
    for (size_t n = 0; n <= layers; ++n) {
      for (const uint64_t budget : {needed[n], n == layers ? needed[n] * 2 : needed[n + 1] - 1}) {
        const runtime::Compiled compiled = fit(open_layout(model, s), s, budget);
        std::vector<bool> expected(layers, false);
        std::fill(expected.end() - static_cast<std::ptrdiff_t>(n), expected.end(), true);
        INFO(model.type << ", " << n << " layers, budget " << budget);
        CHECK(kept(compiled.layout) == expected);
        CHECK(compiled.plan.device().peak_bytes <= budget);
        const Outcome outcome = run_compiled(compiled, s);
        CHECK(outcome.state == reference.state);
        CHECK(outcome.losses == reference.losses);
        CHECK(outcome.measured == outcome.planned);
      }
    }
  }
}

TEST_CASE("outputs are made again where no budget is known, and where the configuration says so") {
  const models::Model model = gpt2();
  const Setting s = setting();
  CHECK(kept(fit(open_layout(model, s), s, std::nullopt).layout) == std::vector<bool>(layers, false));
  runtime::Layout said = open_layout(model, s);
  said.open_recompute = false;
  CHECK(kept(fit(said, s, uint64_t{1} << 30).layout) == std::vector<bool>(layers, false));
}

TEST_CASE("a step that keeps outputs is predicted to take less") {
  for (const models::Model& model : {gpt2(), llama()}) {
    for (const bool keeps : {false, true}) {
      Setting s = setting();
      s.recompute = {keeps ? Recompute::never : Recompute::none};
      const runtime::Layout layout = make_layout(model, s);
      const models::Block& block = *layout.model->blocks[1];
      const runtime::Cluster cluster = runtime::nominal_cluster(core::DeviceKind::cpu);
      const runtime::BlockCost with = runtime::block_cost(block, layout.shape(models::Mode::train, 1), false, cluster);
      const runtime::BlockCost plain = runtime::block_cost(block, layout.shape(models::Mode::train), false, cluster);
      CHECK(with.forward_seconds == plain.forward_seconds);
      CHECK((with.backward_seconds < plain.backward_seconds) == keeps);
    }
  }
}

}  // namespace zrt::kept_outputs_test

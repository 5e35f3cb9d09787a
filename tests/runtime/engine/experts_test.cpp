// Layers of experts in whole runs: the same bits whatever the stage, placement, recomputation, pipeline and update
// timing, and the numbers of one rank where ranks share the experts.
#include "runtime/config/config.h"
#include "tests/runtime/engine/model_invariance.h"
#include "tests/runtime/engine/model_sweep.h"
#include "tests/runtime/pipeline.h"

namespace zrt::experts_engine_test {

using namespace zrt;
using namespace zrt::testing;

namespace {

// Llama's layers: the two likeliest of four, some of which are dropped, and both losses of the router. GPT-2's: two
// prototypes of two in every second layer.
models::Model llama_with_experts(bool tied, const Setting& s = {}, int64_t layers = 2) {
  models::LlamaConfig config;
  config.layers = layers, config.hidden = 48, config.heads = 4, config.kv_heads = 2, config.ffn = 80;
  config.sequence = 24, config.vocab = 61, config.tied = tied, config.degrees = {s.tensor, s.rows};
  config.experts = {.number = 4, .ffn = 40, .top_k = 2, .capacity_factor = 0.9, .normalised = true};
  config.experts.aux_loss = 0.1, config.experts.z_loss = 0.01;
  return models::make_llama(config);
}
models::Model gpt2_with_experts(bool tied, const Setting& s = {}, int64_t layers = 2) {
  models::Gpt2Config config;
  config.layers = layers, config.hidden = 48, config.heads = 4, config.sequence = 24, config.vocab = 61;
  config.tied = tied, config.degrees = {s.tensor, s.rows};
  config.experts = {.number = 4, .ffn = 40, .prototypes = 2, .aux_loss = 0.1, .every = 2};
  return models::make_gpt2(config);
}
models::Model tiny(const EqualRuns& group) {
  return group.tied ? llama_with_experts(true) : gpt2_with_experts(false);
}

std::vector<EqualRuns> groups() {
  constexpr auto f32 = core::DType::f32, bf16 = core::DType::bf16;
  if (full_tests()) return all_groups({0.0f});
  return {{bf16, 0, 4, 2, 2, true}, {f32, 0, 1, 1, 3, false}};
}

}  // namespace

TEST_CASE("Weights of experts after 20 steps are the same bits whatever the stage, unit and bucket sizes") {
  check_invariance(groups(), tiny);
}

TEST_CASE("A serialized run with experts holds exactly the live bytes the plan says, category by category") {
  check_live_bytes(0, tiny);
}

TEST_CASE("Wherever states of experts are, whatever is computed again and when it is updated, the bits are the same") {
  check_placements(llama_with_experts(true), core::DType::bf16);
  check_placements(gpt2_with_experts(true), core::DType::f32);
}

TEST_CASE("Pipelines of layers with experts have the bits of no pipeline, also where weights' gradients come later") {
  for (const bool llama : {true, false}) {
    Setting s;
    s.ranks = 2, s.accumulation = s.reduce_every = 4, s.steps = 3, s.stage = llama ? 3 : 1;
    check_pipelines(llama ? llama_with_experts(false, {}, 4) : gpt2_with_experts(false, {}, 4), s);
  }
}

// SGD: the weights differ by no more than the gradients' rounding.
TEST_CASE("Ranks that share experts train as one rank does, to rounding, and alike whatever else they do") {
  for (const bool llama : {true, false}) {
    Setting s;
    s.accumulation = s.reduce_every = 2, s.steps = 5, s.optimizer = make_optimizer(optimizer::SgdParams{}),
    s.rate = 0.1;
    const auto model = [&] { return llama ? llama_with_experts(true, s) : gpt2_with_experts(true, s); };
    s.eval = true;
    const Outcome one = run(model(), s);
    for (const auto& [tensor, rows] : {std::pair{2, false}, {2, true}, {4, false}}) {
      if (llama && tensor == 4) continue;  // it has two heads of keys
      s.tensor = tensor, s.rows = rows, s.stage = 0, s.overlap = false;
      INFO("Llama's " << llama << ", tensor " << tensor << ", rows " << rows);
      const Outcome shared = run(model(), s);
      CHECK(relative_l2(shared.weights, one.weights) < 1e-5);
      CHECK(shared.eval_loss == Approx(one.eval_loss).epsilon(1e-6));
      for (size_t step = 0; step < one.losses.size(); ++step) {
        CHECK(shared.losses[step] == Approx(one.losses[step]).epsilon(1e-5));
        CHECK(shared.norms[step] == Approx(one.norms[step]).epsilon(1e-4));
      }
      CHECK(shared.planned == shared.measured);
      s.stage = 3, s.overlap = true;
      CHECK(run(model(), s).state == shared.state);
    }
    s.tensor = 1, s.rows = false;
  }
}

TEST_CASE("A run with experts goes on from a checkpoint with the bits of one that did not stop, on other ranks too") {
  check_resume(llama_with_experts(true));
}

}  // namespace zrt::experts_engine_test

// Layers of experts with shared ones in whole runs: the same bits whatever the stage, placement, recomputation,
// pipeline and update timing, and the numbers of one rank where ranks share the experts or have some of them each.
#include <algorithm>

#include "tests/runtime/engine/model_invariance.h"
#include "tests/runtime/engine/model_sweep.h"
#include "tests/runtime/pipeline.h"

namespace zrt::shared_experts_engine_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::Recompute;

namespace {

// Llama's layers: two shared experts beside the two likeliest of four. GPT-2's: one beside two prototypes, in every
// second layer. Nothing is dropped, so that it does not matter which rank has which tokens.
models::Model llama_with_shared(const Setting& s, int64_t layers = 2, bool tied = true) {
  models::LlamaConfig config;
  config.layers = layers, config.hidden = 32, config.heads = 4, config.kv_heads = 2, config.ffn = 48;
  config.sequence = 16, config.vocab = 61, config.tied = tied, config.degrees = {s.tensor, s.rows, s.expert};
  config.experts = {.number = 4, .ffn = 24, .top_k = 2, .normalised = true, .aux_loss = 0.1, .shared = 2};
  return models::make_llama(config);
}
models::Model gpt2_with_shared(const Setting& s, int64_t layers = 2, bool tied = true) {
  models::Gpt2Config config;
  config.layers = layers, config.hidden = 32, config.heads = 4, config.sequence = 16, config.vocab = 61;
  config.dropout = 0.1f, config.tied = tied, config.degrees = {s.tensor, s.rows, s.expert};
  config.experts = {.number = 4, .ffn = 20, .prototypes = 2, .aux_loss = 0.1, .shared = 1, .every = 2};
  return models::make_gpt2(config);
}
models::Model make(bool llama, const Setting& s, int64_t layers = 2, bool tied = true) {
  return llama ? llama_with_shared(s, layers, tied) : gpt2_with_shared(s, layers, tied);
}

}  // namespace

TEST_CASE("Wherever states of shared experts are, whatever is computed again and when it is updated, bits are equal") {
  check_placements(llama_with_shared({}), core::DType::bf16);
  check_placements(gpt2_with_shared({}), core::DType::f32);
}

TEST_CASE("A serialized run with shared experts holds exactly the live bytes the plan says, category by category") {
  check_live_bytes(0, [](const EqualRuns& group) { return make(group.compute == core::DType::bf16, {}); });
}

TEST_CASE("Pipelines of layers with shared experts have the bits of no pipeline, spread or not, in halves or not") {
  for (const bool llama : {true, false}) {
    for (const int expert : {1, 2}) {
      Setting s;
      s.ranks = 2, s.expert = expert, s.accumulation = s.reduce_every = 4, s.steps = 3, s.stage = llama ? 3 : 1;
      check_pipelines(make(llama, s, 4, false), s);
    }
  }
}

TEST_CASE("Shared experts beside spread ones have the same bits whatever the stage, overlap and recomputation") {
  for (const bool llama : {true, false}) {
    for (const int tensor : {1, 2}) {
      Setting s;
      s.ranks = 2, s.expert = 2, s.tensor = tensor, s.rows = tensor == 2 && llama, s.steps = 3;
      s.compute = llama ? core::DType::bf16 : core::DType::f32, s.accumulation = s.reduce_every = 2;
      const models::Model model = make(llama, s);
      const Outcome reference = run(model, s);
      unsigned turn = 0;
      for (const int stage : {0, 3}) {
        for (const Recompute recompute : {Recompute::never, Recompute::none, Recompute::selective, Recompute::full}) {
          ++turn;
          if (left_to_processor(turn)) continue;
          s.stage = stage, s.recompute = {recompute}, s.overlap = turn % 2 == 1;
          s.unit_elements = turn % 3 == 0 ? 1 << 20 : 700;
          INFO("Llama's " << llama << ", tensor " << tensor << ", stage " << stage << ", turn " << turn);
          const Outcome outcome = run(model, s);
          CHECK(outcome.state == reference.state);
          CHECK(outcome.losses == reference.losses);
          CHECK(outcome.planned == outcome.measured);
        }
      }
    }
  }
}

// Plain gradient descent: differences of weights after a step are those of gradients times the rate, beside the
// rounding of weights; hence the large rate.
TEST_CASE("Ranks that share experts, or have some each, make the gradients of one rank's layers with shared experts") {
  for (const bool llama : {true, false}) {
    Setting s;
    s.ranks = 2, s.steps = 0, s.clip = 0, s.rate = 1000, s.optimizer = make_optimizer(optimizer::SgdParams{});
    s.eval = true;
    const Outcome start = run(make(llama, s), s);
    s.steps = 1;
    const Outcome one = run(make(llama, s), s);
    for (const auto& [tensor, rows, expert] :
         {std::tuple{1, false, 2}, {2, false, 1}, {2, true, 1}, {2, false, 2}, {2, true, 2}}) {
      for (const bool overlap : {false, true}) {
        s.tensor = tensor, s.rows = rows, s.expert = expert, s.overlap = overlap;
        INFO("Llama's " << llama << ", tensor " << tensor << ", rows " << rows << ", expert " << expert << ", overlap "
                        << overlap);
        const Outcome outcome = run(make(llama, s), s);
        CHECK(largest_difference(outcome, one, start) < 1e-5);
        CHECK(outcome.losses[0] == Approx(one.losses[0]).epsilon(1e-6));
        CHECK(outcome.norms[0] == Approx(one.norms[0]).epsilon(1e-5));
        CHECK(outcome.planned == outcome.measured);
      }
    }
    s.tensor = 1, s.rows = false, s.expert = 1, s.overlap = false;
  }
}

TEST_CASE("Evaluation of shared experts gives the loss of one rank where ranks share experts or have some each") {
  for (const bool llama : {true, false}) {
    Setting s;
    s.ranks = 2, s.steps = 3, s.clip = 0, s.rate = 0.1, s.optimizer = make_optimizer(optimizer::SgdParams{});
    s.eval = true;
    const double one = run(make(llama, s), s).eval_loss;
    for (const auto& [tensor, expert] : {std::pair{1, 2}, {2, 1}, {2, 2}}) {
      s.tensor = tensor, s.expert = expert;
      INFO("Llama's " << llama << ", tensor " << tensor << ", expert " << expert);
      CHECK(run(make(llama, s), s).eval_loss == Approx(one).epsilon(1e-5));
    }
  }
}

TEST_CASE("A run with shared experts goes on from a checkpoint with the bits of one that did not stop") {
  check_resume(llama_with_shared({}));
}

}  // namespace zrt::shared_experts_engine_test

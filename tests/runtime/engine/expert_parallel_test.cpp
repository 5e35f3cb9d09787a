// Experts that are spread over ranks (parallel.expert): the numbers of runs in which every rank has all of them, the
// same bits whatever else is chosen, and what ranks give each other.
#include <numeric>

#include "models/sharing.h"
#include "runtime/config/config.h"
#include "tests/runtime/engine/model_sweep.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/whole_tensor_optimizers.h"

namespace zrt::expert_parallel_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::OpKind;
using runtime::Recompute;

namespace {

models::Model llama_with(const Setting& s, const models::Experts& experts, int64_t layers = 2, bool tied = true) {
  models::LlamaConfig config;
  config.layers = layers, config.hidden = 32, config.heads = 4, config.kv_heads = 2, config.ffn = 48;
  config.sequence = 16, config.vocab = 61, config.tied = tied, config.degrees = {s.tensor, s.rows, s.expert};
  config.experts = experts;
  return models::make_llama(config);
}
models::Model gpt2_with(const Setting& s, const models::Experts& experts, int64_t layers = 2, bool tied = true) {
  models::Gpt2Config config;
  config.layers = layers, config.hidden = 32, config.heads = 4, config.sequence = 16, config.vocab = 61;
  config.tied = tied, config.degrees = {s.tensor, s.rows, s.expert}, config.experts = experts;
  return models::make_gpt2(config);
}

// Nothing is dropped; the router has its own losses.
const models::Experts likeliest{
    .number = 4, .ffn = 24, .top_k = 2, .normalised = true, .aux_loss = 0.1, .z_loss = 0.01};
const models::Experts prototypes{.number = 8, .ffn = 16, .prototypes = 2, .aux_loss = 0.1, .every = 2};
// Half of the picks find their expert full.
const models::Experts narrow{.number = 4, .ffn = 24, .top_k = 2, .capacity_factor = 0.5, .aux_loss = 0.1};
const models::Experts roomy{.number = 4, .ffn = 24, .top_k = 2, .capacity_factor = 1.5};

models::Model make(bool llama, const Setting& s, int64_t layers = 2, bool tied = true) {
  return llama ? llama_with(s, likeliest, layers, tied) : gpt2_with(s, prototypes, layers, tied);
}

// One feed-forward part and router for both layers, which norms alone tell apart.
models::Model shared_layers(bool llama, const Setting& s) {
  const models::Experts& experts = llama ? likeliest : roomy;
  const models::Model model = llama ? llama_with(s, experts, 4) : gpt2_with(s, experts, 4);
  return models::share(model, {{2, 2}, {"*ln_*", "*norm*"}});
}

// Ties go to the lower expert.
models::Model with_equal_logits(models::Model model) {
  for (auto& block : model.blocks) {
    for (const models::Param& param : block->params()) {
      if (param.name.ends_with("gate.weight")) const_cast<models::Param&>(param).init = models::Init::zeros;
    }
  }
  return model;
}

// Plain gradient descent: what weights differ by is what their gradients do.
Setting descent(int ranks, int steps) {
  Setting s;
  s.ranks = ranks, s.steps = steps, s.clip = 0, s.rate = 0.1;
  s.optimizer = make_optimizer(optimizer::SgdParams{});
  return s;
}

}  // namespace

TEST_CASE("Experts that are spread over ranks begin with the weights of those that every rank has") {
  for (const bool llama : {true, false}) {
    Setting s = descent(4, 0);
    const std::string all = run(make(llama, s), s).state;
    for (const int expert : {2, 4}) {
      s.expert = expert;
      CHECK(run(make(llama, s), s).state == all);
      s.stage = 3;
      CHECK(run(make(llama, s), s).state == all);
    }
  }
}

TEST_CASE("Layers that share their parameters spread their experts as others do") {
  for (const bool llama : {true, false}) {
    Setting s = descent(4, 3);
    const Outcome all = run(shared_layers(llama, s), s);
    for (const int expert : {2, 4}) {
      s.expert = expert, s.stage = 0;
      const Outcome spread = run(shared_layers(llama, s), s);
      CAPTURE(llama, expert);
      CHECK(spread.norms[0] == Approx(all.norms[0]).epsilon(1e-6));
      CHECK(spread.losses.back() == Approx(all.losses.back()).epsilon(1e-5));
      CHECK(spread.planned == spread.measured);
      s.stage = 3, s.recompute = {Recompute::full};
      CHECK(run(shared_layers(llama, s), s).state == spread.state);
      s.recompute = {};
    }
  }
}

TEST_CASE("Twenty steps of spread experts end at the loss of those that every rank has, in evaluation too") {
  for (const bool llama : {true, false}) {
    Setting s = descent(4, 20);
    s.eval = true;
    const Outcome all = run(make(llama, s), s);
    for (const int expert : {2, 4}) {
      s.expert = expert, s.stage = expert == 2 ? 3 : 1;
      const Outcome spread = run(make(llama, s), s);
      CHECK(spread.losses.back() == Approx(all.losses.back()).epsilon(1e-3));
      CHECK(spread.eval_loss == Approx(all.eval_loss).epsilon(1e-3));
    }
  }
}

TEST_CASE("Spread experts have the same bits whatever the stage, units, overlap and recomputation") {
  for (const bool llama : {true, false}) {
    for (const core::DType compute : {core::DType::f32, core::DType::bf16}) {
      Setting s;
      s.ranks = 4, s.expert = llama ? 2 : 4, s.compute = compute, s.accumulation = s.reduce_every = 2;
      const Outcome reference = run(make(llama, s), s);
      unsigned turn = 0;
      for (const int stage : {0, 1, 2, 3}) {
        for (const Recompute recompute : {Recompute::never, Recompute::none, Recompute::selective, Recompute::full}) {
          ++turn;
          if (left_to_processor(turn)) continue;
          s.stage = stage, s.recompute = {recompute}, s.overlap = turn % 2 == 1;
          s.unit_elements = turn % 3 == 0 ? 1 << 20 : 700, s.bucket = 1 << (10 + turn);
          s.persistence = turn % 4 == 0 ? 900 : 0;
          INFO("Llama's " << llama << ", " << core::dtype_name(compute) << ", stage " << stage << ", turn " << turn);
          const Outcome outcome = run(make(llama, s), s);
          CHECK(outcome.state == reference.state);
          CHECK(outcome.losses == reference.losses);
          CHECK(outcome.norms == reference.norms);
          CHECK(outcome.planned == outcome.measured);
        }
      }
    }
  }
}

TEST_CASE("Ranks that share spread experts have the same bits whatever the stage and overlap") {
  Setting s;
  s.ranks = 2, s.tensor = 2, s.expert = 2, s.steps = 3;
  for (const bool rows : {false, true}) {
    s.rows = rows, s.stage = 0, s.overlap = false, s.recompute = {};
    const Outcome reference = run(make(true, s), s);
    s.stage = 3, s.overlap = true, s.recompute = {Recompute::selective};
    const Outcome other = run(make(true, s), s);
    CHECK(other.state == reference.state);
    CHECK(other.planned == other.measured);
  }
}

TEST_CASE("Pipelines of layers with spread experts have the bits of no pipeline, gradients of weights apart or not") {
  for (const bool llama : {true, false}) {
    Setting s;
    s.ranks = 2, s.expert = 2, s.accumulation = s.reduce_every = 4, s.steps = 3, s.stage = llama ? 3 : 1;
    check_pipelines(make(llama, s, 4, false), s);
  }
}

TEST_CASE("Wherever states of spread experts are, and whenever they are updated, the bits are the same") {
  Setting s;
  s.ranks = 4, s.expert = 2, s.accumulation = s.reduce_every = 2, s.steps = 3, s.clip = 0;
  s.compute = core::DType::bf16, s.unit_elements = 800;
  const models::Model model = llama_with(s, narrow);
  const Outcome reference = run(model, s);
  unsigned turn = 0;
  for (const NamedPlacing& placing : placings()) {
    ++turn;
    if (left_to_processor(turn)) continue;
    s.stage = static_cast<int>(turn % 4), s.placement = placing.place, s.overlap = turn % 2 == 0;
    s.early_updates = turn % 5 == 0;
    INFO(placing.name << ", stage " << s.stage << ", turn " << turn);
    const Outcome outcome = run(model, s);
    CHECK(outcome.state == reference.state);
    CHECK(outcome.planned == outcome.measured);
    CHECK(outcome.planned_behind == outcome.measured_behind);
  }
}

TEST_CASE("A serialized run with spread experts holds exactly the live bytes the plan says, category by category") {
  for (const int stage : {0, 1, 2, 3}) {
    Setting s;
    s.ranks = 2, s.expert = 2, s.stage = stage, s.accumulation = s.reduce_every = 4, s.serialize = true, s.steps = 2;
    s.eval = true;
    const Outcome outcome = run(llama_with(s, narrow), s);
    for (const runtime::LivePeak& live : outcome.live) {
      CHECK(live.total == outcome.plan.device().live_peak_bytes);
      CHECK(live.categories == outcome.plan.device().categories);
    }
    CHECK(outcome.planned == outcome.measured);
  }
}

// Adafactor's statistics and Muon's matrices are of whole tensors, which ranks with the same experts hold together.
TEST_CASE("Optimizers of whole tensors update spread experts as they do those that every rank has") {
  for (const bool muon : {true, false}) {
    Setting s;
    s.ranks = 4, s.steps = 3, s.stage = 1;
    s.optimizer = muon ? zrt::testing::muon() : adafactor(false);
    const Outcome all = run(make(true, s), s);
    s.expert = 2;
    const Outcome spread = run(make(true, s), s);
    CHECK(relative_l2(spread.weights, all.weights) < 1e-3);
    s.stage = 2, s.overlap = true;
    CHECK(run(make(true, s), s).state == spread.state);
  }
}

// Forward, rows go to their experts and come back; backward, their gradients do. What says of each row which expert it
// is for, its gate and the gate's gradient are three elements more.
TEST_CASE("A layer's all-to-alls receive from each other rank as many rows as its experts take") {
  for (const int expert : {2, 4}) {
    Setting s;
    s.ranks = 4, s.expert = expert, s.steps = 2, s.accumulation = 3, s.stage = 2;
    const models::Model model = llama_with(s, roomy);
    const Outcome outcome = run(model, s);
    const auto rows = static_cast<double>(s.micro_batch * model.sequence);
    const auto capacity = static_cast<uint64_t>(std::ceil(roomy.capacity_factor * 2 * rows / 4));
    const uint64_t of_rank = roomy.number * capacity * (expert - 1) / expert;
    const uint64_t layers = 2ull * s.accumulation * s.steps;
    CHECK(outcome.comm.at(OpKind::exchange).elements == layers * of_rank * (4 * 32 + 3));
  }
}

// All tokens pick experts 0 and 1, which the first of two ranks has: it sends nothing to others, and the second sends
// all of its rows.
TEST_CASE("Without a capacity all-to-alls move the rows that are routed, and what says which these are") {
  Setting s = descent(4, 1);
  s.expert = 2, s.stage = 3;
  const models::Model model = with_equal_logits(llama_with(s, likeliest));
  const runtime::Layout layout = make_layout(model, s);
  std::vector<runtime::Compiled> stages;
  stages.push_back(runtime::compile(layout, phases_of(s)));
  runtime::Session session(std::move(stages), session_options(s),
                           {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                              synthetic_batch(layout, 0, rank, microbatch, to);
                            },
                            {}});
  session.run("init", {});
  session.run("step", {s.seed, 0, 0, {0}});
  const auto rows = static_cast<uint64_t>(s.micro_batch * model.sequence);
  const uint64_t layers = 2, width = 32, room = 2 * rows;  // of a message to the other rank
  const uint64_t told = 6 * room;                          // experts, gates and rows taken, both ways
  for (int r = 0; r < 4; ++r) {
    const bool first = layout.mesh.place(core::Axis::expert, r) == 0;
    // The first gets two picks of each row of the other, forward and backward; that one gets them back.
    INFO("rank " << r << ", the first of two: " << first);
    CHECK(session.executor(r).comm_volume().at(OpKind::exchange).elements == layers * (2 * 2 * rows * width + told));
  }
}

TEST_CASE("All tokens that go to one expert, and none to a rank, are dropped beyond its room, and nobody hangs") {
  for (const models::Experts& experts : {narrow, likeliest}) {
    Setting s = descent(4, 2);
    s.stage = 3, s.rate = 0, s.eval = true;
    std::vector<double> losses;
    for (const int expert : {1, 2, 4}) {
      s.expert = expert;
      const models::Model model = with_equal_logits(llama_with(s, experts));
      std::vector<runtime::Compiled> stages;
      stages.push_back(runtime::compile(make_layout(model, s), phases_of(s)));
      const runtime::Layout layout = stages[0].layout;
      runtime::Session session(std::move(stages), session_options(s),
                               {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                                  synthetic_batch(layout, 0, rank, microbatch, to);
                                },
                                {}});
      session.run("init", {});
      session.run("step", {s.seed, 0, 0, {s.rate}});
      const models::RouterTally& tally = session.executor(0).control().all_routers;
      losses.push_back(session.executor(0).control().mean_loss);
      const uint64_t rows = 4 * 2 * 16, layers = 2;
      CHECK(tally.choices == layers * rows * 2);
      // A rank's rows are 32, of which an expert takes ⌈0.5 · 64 / 4⌉ = 8.
      CHECK(tally.dropped == (experts.capacity_factor > 0 ? layers * 2 * (rows - 4 * 8) : 0));
      CHECK(tally.peak == Approx(2.0));
    }
    CHECK(losses[1] == Approx(losses[0]).epsilon(1e-6));
    CHECK(losses[2] == Approx(losses[0]).epsilon(1e-6));
  }
}

TEST_CASE("A run with spread experts goes on from a checkpoint with the bits of one that did not stop") {
  Setting s;
  s.ranks = 4, s.expert = 2, s.stage = 3, s.compute = core::DType::bf16;
  const TemporaryFolder folder;
  SavingRun whole(llama_with(s, narrow), s, folder.path, true);
  whole.steps(2);
  whole.save();
  REQUIRE(whole.saved().error.empty());
  const std::string at_save = whole.hash();
  whole.steps(3);
  const runtime::checkpoint::Reader reader(folder.path / "step_2", true);
  SavingRun again(llama_with(s, narrow), s, folder.path / "again", false, &reader);
  again.steps(3);
  CHECK(again.hash() == whole.hash());
  // Its tensors are those of whole experts: any mesh loads them, and what that saves is the same.
  for (const auto& [ranks, tensor, expert, stage] :
       {std::tuple{4, 1, 4, 1}, {2, 1, 1, 3}, {2, 2, 2, 0}, {1, 1, 1, 0}, {6, 1, 2, 2}}) {
    s.ranks = ranks, s.tensor = tensor, s.expert = expert, s.stage = stage;
    INFO(ranks << " ranks, tensor " << tensor << ", expert " << expert << ", stage " << stage);
    const TemporaryFolder other;
    SavingRun moved(llama_with(s, narrow), s, other.path, stage > 1, &reader);
    CHECK(moved.hash() == at_save);
    moved.save();
    REQUIRE(moved.saved().error.empty());
    const runtime::checkpoint::Reader back(other.path / "step_2", true);
    Setting first;
    first.ranks = 4, first.expert = 2, first.stage = 3, first.compute = core::DType::bf16;
    SavingRun returned(llama_with(first, narrow), first, folder.path / "back", false, &back);
    returned.steps(3);
    CHECK(returned.hash() == whole.hash());
  }
}

}  // namespace zrt::expert_parallel_test

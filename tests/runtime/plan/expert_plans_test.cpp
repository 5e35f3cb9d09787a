// Plans of the largest models with experts: M6-10T on 512 GPUs of 32 GB, and Qwen3-30B-A3B on the fewest of 80 GB.
#include <fmt/format.h>

#include <chrono>

#include "catch.h"
#include "runtime/plan/plan.h"
#include "runtime/train/lives.h"

namespace zrt::expert_plans_test {

using namespace zrt;
using namespace zrt::runtime;

namespace {

Config m6(const std::vector<std::string>& sets) {
  return load_config(ZRT_SOURCE_DIR "/tools/examples/m6_10t.json", sets, 512);
}

// Parameters of which the first rank has states.
int64_t parameters_of_rank(const Plan& plan) {
  int64_t sum = 0;
  for (const optimizer::Unit& unit : plan.layout().units.units) sum += unit.parameters() / unit.shards();
  return sum;
}

uint64_t states_of_rank(const Plan& plan) {
  uint64_t sum = 0;
  for (const TierPlan& tier : plan.stages[0].compiled.plan.tiers) {
    for (const core::Category kind : {core::Category::weights, core::Category::grads, core::Category::master,
                                      core::Category::moment1, core::Category::moment2}) {
      sum += tier.model_states[static_cast<size_t>(kind)];
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("M6-10T has its published parameters, and programs for 512 ranks that are verified") {
  const Config config = m6({"memory.placement=device", "memory.device_budget_bytes=null", "memory.recompute=full"});
  const models::Model model = config.model.make();
  // The paper's arithmetic, of experts alone: 48 · 10,240 · 2 · 1024 · 9984.
  const int64_t experts = int64_t{48} * 10240 * 2 * 1024 * 9984;
  CHECK(experts == 10050223472640);
  CHECK(model.parameters() > experts);
  CHECK(static_cast<double>(model.parameters()) == Approx(10.05e12).epsilon(1e-3));
  const Plan plan = make_plan(config, model, {"init", "step"}, std::nullopt);
  CHECK(static_cast<double>(parameters_of_rank(plan)) == Approx(19.6e9).epsilon(2e-3));
  // bf16 weights and gradients, and three fp32 states: 16 bytes.
  CHECK(static_cast<double>(states_of_rank(plan)) == Approx(314e9).epsilon(2e-3));
}

TEST_CASE("Layers of M6-10T that share their parameters fit a GPU of 32 GB, and those of their own do not") {
  const std::vector<std::string> on_device{"memory.placement=device", "memory.recompute=full"};
  std::vector<std::string> sets = on_device;
  sets.emplace_back("pseudo_to_real.groups=1");
  const Config pseudo = m6(sets);
  const models::Model shared = with_shared_layers(pseudo.model.make(), *pseudo.pseudo_to_real);
  const Plan small = make_plan(pseudo, shared, {"init", "step"}, std::nullopt);
  CHECK(small.fits);
  CHECK(static_cast<double>(small.parameters) == Approx(209e9).epsilon(3e-3));
  CHECK(static_cast<double>(parameters_of_rank(small)) == Approx(0.41e9).epsilon(5e-3));
  CHECK(small.stages[0].compiled.plan.device().peak_bytes < 32000000000);
  const Config real = m6({"memory.placement=nvme", "memory.recompute=full"});
  const Plan large = make_plan(real, real.model.make(), {"init", "step"}, std::nullopt);
  CHECK(large.fits);
  CHECK(large.stages[0].compiled.plan.tiers[static_cast<size_t>(core::Tier::nvme)].peak_bytes > 312'000'000'000);
}

// 16 bytes of states for each parameter that is trained, 2 for one that is not.
TEST_CASE("Qwen3-30B-A3B trains on seven cards of 80 GB, and on two where its experts are frozen") {
  const auto plan_of = [](int ranks, bool frozen) {
    const std::string text = R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
      "zero_optimization": {"stage": 3, "overlap_comm": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
      "model": {"preset": "qwen3-30b-a3b", "sequence": 4096},
      "memory": {"device_budget_bytes": 80000000000, "placement": "device", "recompute": "full",
                 "unit_bytes": 268435456}})";
    const Config config = parse_config(text, "c", {}, ranks);
    models::Model model = config.model.make();
    for (const auto& ref : model.canonical_params()) {
      const std::string& name = model.blocks[ref.block]->params()[ref.index].name;
      if (frozen && name.find(".experts.") != std::string::npos) model.frozen.insert(name);
    }
    return make_plan(config, model, {"init", "step"}, std::nullopt);
  };
  constexpr double card = 80e9, all = 30532122624, experts = 48.0 * 128 * 3 * 2048 * 768;
  CHECK(plan_of(7, false).fits);
  CHECK(16 * all / 6 > card);
  CHECK(plan_of(2, true).fits);
  CHECK(2 * all + 14 * (all - experts) > card);
}

}  // namespace zrt::expert_plans_test

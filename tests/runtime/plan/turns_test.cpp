// Turns that are counted and not run (simulate without a timeline), against the simulation of all of them.
#include "catch.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/setup.h"
#include "runtime/plan/simulator.h"

namespace zrt::turns_test {

using namespace zrt::runtime;

TEST_CASE("a step of many microbatches takes as long by some of its turns as by all of them") {
  struct Case {
    int ranks;
    std::vector<std::string> sets;
  };
  const std::vector<Case> cases{
      {2, {"zero_optimization.stage=3"}},
      {2, {"zero_optimization.stage=1", "memory.placement=host"}},
      {8, {"parallel.pipeline=4", "zero_optimization.stage=1"}},
      {8, {"parallel.pipeline=4", "zero_optimization.stage=3", "zero_optimization.overlap_comm=true"}},
      {8, {"parallel.pipeline=4", "parallel.schedule=gpipe"}},
      {8, {"parallel.pipeline=4", "parallel.virtual_pipeline=2"}},
      {8, {"parallel.pipeline=4", "parallel.schedule=zb-h1"}}};
  Cluster cluster = find_cluster("dgx-a100");
  cluster.ranks_per_host = 2;
  for (const Case& one : cases) {
    for (const int microbatches : {96, 200, 320}) {
      std::vector<std::string> sets = one.sets;
      sets.push_back("gradient_accumulation_steps=" + std::to_string(microbatches));
      CAPTURE(one.sets, microbatches);
      const Config config = parse_config(
          R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "model": {"type": "gpt2", "layers": 8,
              "hidden": 256, "heads": 4, "sequence": 128, "vocab": 2048}})",
          "turns.json", sets, one.ranks);
      std::vector<Compiled> stages;
      for (const Layout& layout : make_layouts(config, config.model.make())) {
        stages.push_back(compile(layout, {"init", "step"}, {}, false));
      }
      const std::vector<Simulation> some = simulate_step(stages, cluster),
                                    all = simulate_step(stages, cluster, Wanted::timeline);
      REQUIRE(some.size() == all.size());
      for (size_t s = 0; s < all.size(); ++s) {
        // Every figure is told to some 1e-5 of a step.
        const double margin = 2e-5 * all[s].seconds;
        CHECK(some[s].seconds == Approx(all[s].seconds).epsilon(0).margin(margin));
        CHECK(some[s].exposed_comm_seconds == Approx(all[s].exposed_comm_seconds).epsilon(0).margin(margin));
        CHECK(some[s].exposed_io_seconds == Approx(all[s].exposed_io_seconds).epsilon(0).margin(margin));
        for (size_t l = 0; l < all[s].busy_seconds.size(); ++l) {
          CHECK(some[s].busy_seconds[l] == Approx(all[s].busy_seconds[l]).epsilon(0).margin(margin));
        }
      }
    }
  }
}

}  // namespace zrt::turns_test

// The lead of gathers follows the configuration, the budget and the cluster.
#include "runtime/plan/distance.h"

#include <filesystem>
#include <fstream>

#include "catch.h"
#include "core/error.h"
#include "runtime/plan/setup.h"
#include "runtime/plan/simulator.h"

namespace zrt::distance_test {

using namespace zrt;
using runtime::Compiled;

namespace {

runtime::Config config_of(const std::vector<std::string>& sets) {
  return runtime::parse_config(R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1,
    "zero_optimization": {"stage": 3},
    "model": {"type": "gpt2", "layers": 12, "hidden": 64, "heads": 4, "sequence": 32, "vocab": 257, "tied": false}})",
                               "lead", sets, 8);
}

struct Chosen {
  uint64_t peak = 0, gathered = 0;  // bytes; elements at most at a time
  double seconds = 0;               // on dgx-a100
};

Chosen choose(const std::vector<std::string>& sets) {
  const runtime::Config config = config_of(sets);
  const models::Model model = config.model.make();
  const runtime::Layout layout = runtime::make_layouts(config, model).front();
  const Compiled compiled =
      runtime::compile_at_distance(config, layout, {"init", "step"}, runtime::memory_limits(config, nullptr));
  Chosen chosen;
  chosen.peak = compiled.plan.device().peak_bytes;
  const runtime::Program& step = compiled.set.program("step");
  for (const runtime::LivePoint& point : runtime::live_bytes(compiled.set, step)) {
    chosen.gathered = std::max(chosen.gathered, point.tiers[0][static_cast<size_t>(core::Category::gathered)] / 4);
  }
  chosen.seconds = runtime::simulate(compiled.set, step, layout, runtime::find_cluster("dgx-a100")).seconds;
  return chosen;
}

const std::string prefetch = "zero_optimization.stage3_prefetch_bucket_size=", budget = "memory.device_budget_bytes=";

}  // namespace

TEST_CASE("Without a limit the next block is gathered, with one as much as it allows") {
  const Chosen off = choose({"zero_optimization.overlap_comm=false"}), next = choose({});
  const Chosen far = choose({prefetch + "1000000"}), none = choose({prefetch + "0"});
  CHECK(next.gathered > off.gathered);
  CHECK(next.gathered <= 2 * off.gathered);
  CHECK(far.gathered > 4 * off.gathered);
  CHECK(none.gathered == off.gathered);
}

TEST_CASE("A budget shortens the lead until the plan fits") {
  const Chosen far = choose({prefetch + "1000000"}), next = choose({}), none = choose({prefetch + "0"});
  REQUIRE(none.peak < next.peak);
  REQUIRE(next.peak < far.peak);
  const Chosen cut = choose({prefetch + "1000000", budget + std::to_string(far.peak - 1)});
  CHECK(cut.peak < far.peak);
  CHECK(cut.gathered < far.gathered);
  CHECK(cut.gathered > none.gathered);
  CHECK(choose({budget + std::to_string(next.peak)}).gathered == next.gathered);
  CHECK(choose({budget + std::to_string(next.peak - 1)}).gathered == none.gathered);
  // The refusal is about the shortest lead where none fits.
  CHECK(choose({budget + "1"}).gathered == none.gathered);
}

TEST_CASE("A cluster chooses the lead that steps fastest, within budget and limit") {
  const std::string cluster = "parallel.cluster=dgx-a100";
  const Chosen next = choose({}), chosen = choose({cluster});
  CHECK(chosen.seconds <= next.seconds * 1.005);
  // The cluster chooses the shortest of the leads that are as fast.
  for (const char* elements : {"0", "50000", "100000", "200000"}) {
    const Chosen other = choose({prefetch + elements});
    CAPTURE(elements, other.seconds, chosen.seconds, other.gathered, chosen.gathered);
    if (other.seconds <= chosen.seconds) CHECK(other.gathered >= chosen.gathered);
  }
  CHECK(choose({cluster, budget + std::to_string(next.peak)}).peak <= next.peak);
  CHECK(choose({cluster, prefetch + "0"}).gathered == choose({prefetch + "0"}).gathered);
  CHECK_THROWS_AS(choose({"parallel.cluster=dgx-a1000"}), core::ConfigError);
}

}  // namespace zrt::distance_test

// Pipelines cut by time, against all other cuts of a small model, priced op by op from the programs of their stages.
#include "runtime/plan/partition.h"

#include <algorithm>
#include <cmath>

#include "catch.h"
#include "runtime/ops/spec.h"
#include "runtime/plan/fit.h"
#include "runtime/plan/setup.h"

namespace zrt::partition_test {

using namespace zrt::runtime;

namespace {

Config config_of(const std::string& recompute, const std::string& partition) {
  return parse_config(
      R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "parallel": {"pipeline": 3, "cluster": "dgx-a100"},
          "bf16": {"enabled": true},
          "model": {"type": "gpt2", "layers": 5, "hidden": 1024, "heads": 16, "sequence": 2048, "vocab": 20000}})",
      "cut.json", {"memory.recompute=" + recompute, "parallel.partition=" + partition}, 3);
}

// Seconds that the busiest stage computes blocks in a step.
double busiest(const Config& config) {
  const Cluster cluster = machine_of(config);
  double most = 0;
  for (const Layout& layout : make_layouts(config, config.model.make())) {
    const Compiled stage = compile(layout, {"init", "step"}, {}, false);
    double seconds = 0;
    for_each_execution(stage.set.program("step"), ~0u, [&](OpId id, uint32_t) {
      const Op& op = stage.set.program("step").ops[id];
      if (runs_block(op.kind)) seconds += op_cost(stage.set, op, layout, cluster).seconds;
    });
    most = std::max(most, seconds);
  }
  return most;
}

}  // namespace

TEST_CASE("no cut of a small model has a busiest stage that is faster than that of the cut by time") {
  for (const char* recompute : {"none", "selective", "full", "[0, 1]"}) {
    CAPTURE(recompute);
    const double chosen = busiest(config_of(recompute, "time"));
    double best = INFINITY;
    for (int first = 1; first <= 5; ++first) {
      for (int second = 1; first + second <= 6; ++second) {
        const std::string counts =
            "[" + std::to_string(first) + "," + std::to_string(second) + "," + std::to_string(7 - first - second) + "]";
        best = std::min(best, busiest(config_of(recompute, counts)));
      }
    }
    CHECK(chosen <= best * 1.01);
  }
}

}  // namespace zrt::partition_test

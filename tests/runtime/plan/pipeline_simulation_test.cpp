// Compiled pipelines on the clocks of the simulator: the goldens' makespans, with the goldens' times of ops.
#include <nlohmann/json.hpp>

#include "catch.h"
#include "runtime/cost/nominal_cluster.h"
#include "runtime/plan/simulator.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/schedule_goldens.h"
#include "tests/runtime/toy_model.h"

namespace zrt::pipeline_simulation_test {

using namespace zrt;
using namespace zrt::testing;
using namespace zrt::runtime;
using nlohmann::json;

namespace {

// A block for each chunk.
double makespan(const json& golden, ScheduleKind kind, int zero_stage) {
  const int stages = golden["p"], chunks = golden.value("v", 1);
  Setting s;
  s.stage = zero_stage, s.micro_batch = 1, s.ranks = 2;
  s.accumulation = golden["m"];
  s.reduce_every = zero_stage < 2 ? s.accumulation : 1;
  s.overlap = true;
  s.schedule = {kind, stages, static_cast<int32_t>(s.accumulation), chunks, golden.value("G", 1)};
  const models::Model model = make_toy(stages * chunks - 2, 4, 7, 2, false, false);
  const Pipeline pipeline(model, s, even_ends(model, stages * chunks));
  const std::vector<Compiled> compiled = pipeline.compile(s);
  std::vector<SimulatedStage> simulated;
  simulated.reserve(compiled.size());
  for (const Compiled& stage : compiled) {
    simulated.push_back({&stage.set, &stage.set.program("step"), &stage.layout});
  }
  const double forward = golden["op_time"]["F"], backward = golden["op_time"]["B"];
  const auto all =
      simulate(simulated, nominal_cluster(core::DeviceKind::cpu), false, [&](const SimulatedStage&, const Op& op) {
        const double seconds = op.kind == OpKind::forward ? forward : op.kind == OpKind::backward ? backward : 0;
        return OpCost{seconds, Resource::compute};
      });
  for (const Simulation& stage : all) {
    // Idle as long as every other one.
    CHECK(stage.busy_seconds[0] == Approx((forward + backward) * s.accumulation * chunks));
  }
  return all.front().seconds;
}

}  // namespace

TEST_CASE("compiled pipelines take as long as the goldens of their schedules say, where only blocks take time") {
  for (const auto& [name, kind] : {std::pair{"gpipe", ScheduleKind::gpipe},
                                   {"1f1b", ScheduleKind::one_f_one_b},
                                   {"interleaved", ScheduleKind::interleaved}}) {
    for (const json& golden : schedule_goldens()[name]) {
      if (golden["p"] == 1) continue;
      for (const int zero_stage : {0, 3}) {
        CAPTURE(name, golden["p"].get<int>(), golden["m"].get<int>(), golden.value("v", 1), golden.value("G", 1),
                zero_stage);
        CHECK(makespan(golden, kind, zero_stage) == Approx(golden["makespan"].get<double>()));
      }
    }
  }
}

}  // namespace zrt::pipeline_simulation_test

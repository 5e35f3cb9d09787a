// How long the stages of a pipeline are idle: a measurement, not a test. `test_runtime "[measures]"` prints what
// docs/benchmarks/pipeline.md holds.
#include <chrono>
#include <cstdio>
#include <thread>

#include "catch.h"
#include "runtime/plan/simulator.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/wrapped_block.h"

namespace zrt::pipeline_idle {

using namespace zrt;
using namespace zrt::testing;
using runtime::ScheduleKind;

TEST_CASE("kernels that sleep leave stages idle as long as schedules say", "[.measures]") {
  constexpr double forward = 0.08, backward = 0.16;
  const models::Model model =
      wrap(make_toy(6, 4, 7, 2, false, false),
           {[=](const models::Block&, const models::Call&, bool back) {
              std::this_thread::sleep_for(std::chrono::duration<double>(back ? backward : forward));
            },
            {}});
  for (const int chunks : {1, 2}) {
    for (const uint32_t microbatches : {8u, 16u}) {
      Setting s;
      s.stage = 1, s.micro_batch = 1;
      s.accumulation = s.reduce_every = microbatches;
      s.overlap = true;
      s.schedule = {chunks == 1 ? ScheduleKind::one_f_one_b : ScheduleKind::interleaved, 4,
                    static_cast<int32_t>(microbatches), chunks, chunks == 1 ? 1 : 4};
      const Pipeline pipeline(model, s, even_ends(model, 4 * chunks));
      runtime::Session session(pipeline.compile(s), session_options(s),
                               {[&](int rank, uint32_t microbatch, int32_t* tokens, int32_t* targets) {
                                  synthetic_batch(pipeline.layouts[0], 0, rank, microbatch, tokens, targets);
                                },
                                {}});
      session.run("init", {});
      const double busy = microbatches * 2 * (forward + backward), ideal = 3.0 / (microbatches * chunks);
      for (uint32_t step = 0; step < 4; ++step) {
        const auto begin = std::chrono::steady_clock::now();
        session.run("step", {s.seed, step, 0, {1e-2}});
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        std::printf("chunks %d, microbatches %u: %.4f s, idle / busy %.4f, (p - 1) / (v m) %.4f, ratio %.3f\n", chunks,
                    microbatches, seconds, seconds / busy - 1, ideal, (seconds / busy - 1) / ideal);
      }
    }
  }
}

// A trillion parameters on 3,072 ranks: what a plan of it takes.
TEST_CASE("programs of a trillion parameters in 64 stages are compiled, verified and simulated", "[.measures_plan]") {
  const models::Model model = models::make_gpt2(
      {.layers = 128, .hidden = 25600, .heads = 160, .sequence = 2048, .vocab = 51200, .tied = false});
  std::printf("%.3f trillion parameters\n", static_cast<double>(model.parameters()) / 1e12);
  for (const int zero : {1, 3}) {
    Setting s;
    s.stage = zero, s.micro_batch = 1, s.compute = core::DType::bf16, s.overlap = true, s.ranks = 48;
    s.accumulation = 512, s.reduce_every = zero == 1 ? 512 : 1;
    s.unit_elements = int64_t{1} << 30, s.bucket = int64_t{1} << 30;
    s.schedule = {ScheduleKind::one_f_one_b, 64, 512, 1, 1};
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    const Pipeline pipeline(model, s, even_ends(model, 64));
    const std::vector<runtime::Compiled> stages = pipeline.compile({"init", "step", "export", "save"});
    const double compiled = seconds();
    std::vector<runtime::SimulatedStage> simulated;
    uint64_t most = 0;
    for (const runtime::Compiled& stage : stages) {
      simulated.push_back({&stage.set, &stage.set.program("step"), &stage.layout});
      most = std::max(most, stage.plan.device().peak_bytes);
    }
    const auto all = runtime::simulate(simulated, runtime::find_cluster("dgx-a100"));
    std::printf(
        "ZeRO-%d: compiled and verified in %.1f s, simulated in %.1f s; a step %.1f s, at most %.2f GiB per rank\n",
        zero, compiled, seconds() - compiled, all.front().seconds, static_cast<double>(most) / double{1 << 30});
  }
}

}  // namespace zrt::pipeline_idle

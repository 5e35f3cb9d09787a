// How long the stages of a pipeline are idle: a measurement, not a test. `test_runtime "[measures]"` prints what
// docs/benchmarks/pipeline.md holds.
#include <chrono>
#include <cstdio>
#include <thread>

#include "catch.h"
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

}  // namespace zrt::pipeline_idle

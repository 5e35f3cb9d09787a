// Measures how long the stages of a pipeline are idle; it is no test. `test_runtime "[measures]"` prints what
// docs/benchmarks/pipeline.md holds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "catch.h"
#include "runtime/config/pipeline.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/toy_model.h"
#include "tests/runtime/wrapped_block.h"

namespace zrt::pipeline_idle {

using namespace zrt;
using namespace zrt::testing;
using runtime::ScheduleKind;

namespace {

// Seconds of four steps of a pipeline of four stages, cut where `ends` says.
std::vector<double> seconds_of(const models::Model& model, const std::vector<size_t>& ends, ScheduleKind kind,
                               uint32_t microbatches, int chunks = 1) {
  Setting s;
  s.stage = 1, s.micro_batch = 1;
  s.accumulation = s.reduce_every = microbatches;
  s.overlap = true;
  s.schedule = {kind, 4, static_cast<int32_t>(microbatches), chunks, chunks == 1 ? 1 : 4};
  const Pipeline pipeline(model, s, ends);
  runtime::Session session(pipeline.compile(s), session_options(s),
                           {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                              synthetic_batch(pipeline.layouts[0], 0, rank, microbatch, to);
                            },
                            {}});
  session.run("init", {});
  std::vector<double> all;
  for (uint32_t step = 0; step < 4; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    session.run("step", {s.seed, step, 0, {1e-2}});
    all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return all;
}

void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

TEST_CASE("kernels that sleep leave stages idle as long as schedules say", "[.measures]") {
  constexpr double forward = 0.08, backward = 0.16;
  const models::Model model =
      wrap(make_toy(6, 4, 7, 2, false, false),
           {[=](const models::Block&, const models::Call&, bool back) { sleep(back ? backward : forward); }, {}});
  for (const int chunks : {1, 2}) {
    for (const uint32_t microbatches : {8u, 16u}) {
      const auto kind = chunks == 1 ? ScheduleKind::one_f_one_b : ScheduleKind::interleaved;
      const double busy = microbatches * 2 * (forward + backward), ideal = 3.0 / (microbatches * chunks);
      for (const double seconds : seconds_of(model, even_ends(model, 4 * chunks), kind, microbatches, chunks)) {
        std::printf("chunks %d, microbatches %u: %.4f s, idle / busy %.4f, (p - 1) / (v m) %.4f, ratio %.3f\n", chunks,
                    microbatches, seconds, seconds / busy - 1, ideal, (seconds / busy - 1) / ideal);
      }
    }
  }
}

// A layer a stage, which sleeps; embedding and head do not.
TEST_CASE("kernels that sleep leave stages idle as long as weights' gradients that come apart allow", "[.measures]") {
  struct Times {
    double forward, backward, weights;
  };
  for (const Times& t : {Times{0.16, 0.16, 0.16}, {0.16, 0.2, 0.12}, {0.2, 0.18, 0.22}}) {
    const models::Model model = wrap(make_toy(4, 4, 7, 2, false, false),
                                     {[=](const models::Block& block, const models::Call& call, bool back) {
                                        const models::Anatomy& anatomy = block.anatomy();
                                        if (!anatomy.halves(anatomy.all())) return;
                                        const bool inputs = back && call.half != models::Half::weight;
                                        const bool weights = back && call.half != models::Half::input;
                                        sleep(back ? (inputs ? t.backward : 0) + (weights ? t.weights : 0) : t.forward);
                                      },
                                      {}});
    for (const uint32_t microbatches : {8u, 16u}) {
      const double busy = microbatches * (t.forward + t.backward + t.weights);
      for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
        const double whole = t.forward + t.backward + t.weights,
                     apart = t.forward + t.backward - std::min({t.forward, t.backward, t.weights});
        const double ideal = 3 * (kind == ScheduleKind::zb_h1 ? apart : whole);
        for (const double seconds : seconds_of(model, {2, 3, 4, 6}, kind, microbatches)) {
          std::printf("%s, F %.2f B %.2f W %.2f, microbatches %u: %.4f s, idle %.4f s, expected %.4f, ratio %.3f\n",
                      std::string(runtime::schedule_name(kind)).c_str(), t.forward, t.backward, t.weights, microbatches,
                      seconds, seconds - busy, ideal, (seconds - busy) / ideal);
        }
      }
    }
  }
}

}  // namespace zrt::pipeline_idle

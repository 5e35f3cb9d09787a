// A run of 1,000 steps: memory outside the arenas must not grow.
#include "catch.h"
#include "runtime/harness.h"
#include "runtime/train/telemetry/process_memory.h"

namespace zrt::long_run_test {

using namespace zrt;

TEST_CASE("Memory outside the arenas does not grow over 1,000 steps") {
  const models::Model model = models::make_gpt2({1, 16, 2, 8, 32, 0.1f, true});
  testing::Setting s;
  s.ranks = 2;
  s.stage = 3;
  s.accumulation = 2;
  const runtime::Layout layout = testing::make_layout(model, s);
  uint32_t step = 0;
  runtime::Session session(runtime::compile(layout, {"init", "step"}), {},
                           {[&](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
                              testing::synthetic_batch(layout, step, rank, microbatch, to);
                            },
                            {}});
  const std::vector<const core::Arena*> arenas{&session.arena(0), &session.arena(1)};
  session.run("init", {});
  uint64_t early = 0;
  for (step = 0; step < 1200; ++step) {
    session.run("step", {1, step, 0, {1e-3}});
    // Libraries and heaps have their size once the flight records have wrapped around, and the measurement once it has
    // run: the system maps code in pieces of 64 KiB as it is first used.
    if (step == 198 || step == 199) early = runtime::read_process_memory(arenas).outside_arena_bytes;
  }
  const uint64_t late = runtime::read_process_memory(arenas).outside_arena_bytes;
  INFO("after 200 steps " << early << " bytes, after 1,200 steps " << late << " bytes");
  CHECK(early > 1 << 20);
  // AddressSanitizer keeps freed memory for a while, so under it growth says nothing.
  if (!testing::poisons) CHECK(late <= early + (32 << 10));
  // The measurement sees growth: hold on to memory and look again.
  const std::vector<char> held(8 << 20, 'x');
  CHECK(runtime::read_process_memory(arenas).outside_arena_bytes >
        late + (7 << 20) + static_cast<uint64_t>(held[0] - 'x'));
}

}  // namespace zrt::long_run_test

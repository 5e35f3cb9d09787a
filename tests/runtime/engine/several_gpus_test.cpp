// Ranks with a GPU each have the bits of ranks that share one. On emulated GPUs, of which a test can say how many there
// are; also where none is connected to another (`…@apart`).
#include <cstdlib>

#include "catch.h"
#include "core/error.h"
#include "core/gpu.h"
#include "models/model.h"
#include "runtime/plan/gpus.h"
#include "runtime/train/telemetry/process_memory.h"
#include "tests/runtime/pipeline.h"
#include "tests/runtime/placements.h"
#include "tests/runtime/toy_model.h"

namespace zrt::several_gpus_test {

using namespace zrt;
using namespace zrt::testing;
using runtime::ScheduleKind;

namespace {

// From here on there are `count` GPUs.
void have_gpus(int count) {
  setenv("ZRT_EMULATED_GPUS", std::to_string(count).c_str(), 1);
}

bool emulated() {
  if (test::test_device() == core::DeviceKind::cuda) {
    if (core::gpu_info(0).name == "emulated GPU") return true;
  }
  WARN("skipped: the number of GPUs cannot be chosen");
  return false;
}

void check_equal(const Outcome& several, const Outcome& one) {
  CHECK(several.state == one.state);
  CHECK(several.losses == one.losses);
  CHECK(several.norms == one.norms);
  CHECK(several.measured == several.planned);
  CHECK(several.measured_behind[0] == several.planned_behind[0]);
}

// Runs with a GPU for each rank, with two for all, and with one, and compares.
template <class Run>
void check_runs(Run run) {
  have_gpus(8);
  const Outcome several = run();
  have_gpus(2);
  check_equal(run(), several);
  have_gpus(1);
  check_equal(run(), several);
  have_gpus(8);
}

runtime::Placement behind(const runtime::Layout& layout, core::Tier moments) {
  using core::Tier;
  return uniform(layout, Tier::device, Tier::device, Tier::device, moments, Tier::device, Tier::device);
}

}  // namespace

TEST_CASE("data-parallel ranks have the same bits on GPUs of their own, whatever the ZeRO stage and tier") {
  if (!emulated()) return;
  const models::Model model = make_toy(3, 24, 17, 5, true, false);
  for (int stage = 0; stage < 4; ++stage) {
    for (const core::Tier moments : {core::Tier::device, core::Tier::host, core::Tier::nvme}) {
      Setting s;
      s.ranks = 4, s.stage = stage, s.accumulation = 2, s.overlap = stage % 2 == 1, s.unit_elements = 200, s.steps = 2;
      if (moments != core::Tier::device) {
        s.placement = [moments](const runtime::Layout& layout) { return behind(layout, moments); };
      }
      CAPTURE(stage, static_cast<int>(moments));
      check_runs([&] { return run(model, s); });
    }
  }
}

TEST_CASE("stages of a pipeline have the same bits on GPUs of their own in every schedule") {
  if (!emulated()) return;
  const models::Model model = make_toy(6, 12, 17, 5, false, false);
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::interleaved}) {
    for (int stage = 0; stage < 4; ++stage) {
      Setting s;
      s.ranks = 2, s.stage = stage, s.accumulation = s.reduce_every = 4, s.micro_batch = 1, s.steps = 2;
      s.overlap = stage % 2 == 0;
      CAPTURE(runtime::schedule_name(kind), stage);
      const bool interleaved = kind == ScheduleKind::interleaved;
      check_runs([&] { return run_pipeline(model, s, kind, interleaved ? 2 : 4, interleaved ? 2 : 1); });
    }
  }
}

TEST_CASE("ranks that share blocks have the same bits on GPUs of their own, with stages and data-parallel ranks") {
  if (!emulated()) return;
  Setting s;
  s.tensor = 2, s.ranks = 2, s.stage = 3, s.accumulation = s.reduce_every = 2, s.steps = 2;
  const models::Model model = models::make_gpt2(
      {.layers = 2, .hidden = 24, .heads = 6, .sequence = 6, .vocab = 31, .tied = true, .degrees = {s.tensor}});
  check_runs([&] { return run_pipeline(model, s, ScheduleKind::one_f_one_b, 2); });
}

TEST_CASE("each rank has its memory on its own GPU, or on that of its turn") {
  const models::Model model = make_toy(3, 24, 17, 5, true, false);
  Setting s;
  s.ranks = 4, s.stage = 2;
  const runtime::Layout layout = make_layout(model, s);
  if (!emulated()) return;
  for (const int gpus : {8, 3}) {
    have_gpus(gpus);
    runtime::Session session(runtime::compile(layout, phases_of(s)), session_options(s),
                             {[](int, uint32_t, const runtime::data::SampleRows&) {}, {}});
    for (int rank = 0; rank < s.ranks; ++rank) CHECK(session.arena(rank).gpu() == rank % gpus);
  }
  have_gpus(8);
}

TEST_CASE("more ranks than GPUs are refused unless they may take turns") {
  if (!emulated()) return;
  using runtime::choose_gpus;
  have_gpus(2);
  CHECK(choose_gpus(core::DeviceKind::cuda, {2}, false) == std::vector<int>{0, 1});
  CHECK(choose_gpus(core::DeviceKind::cuda, {5}, true) == std::vector<int>{0, 1, 0, 1, 0});
  CHECK(choose_gpus(core::DeviceKind::cpu, {5}, false).empty());
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(choose_gpus(core::DeviceKind::cuda, {3}, false),
                    Contains("3 ranks") && Contains("sees 2") && Contains("run.share_gpu"));
  have_gpus(8);
}

TEST_CASE("the room of GPUs is that of the one with the least memory, and of the most ranks that have one") {
  if (!emulated()) return;
  const core::OnGpu here(1);
  const core::Arena taken(core::Tier::device, 1 << 20, core::DeviceKind::cuda);
  const runtime::GpuRoom room = runtime::gpu_room({0, 1, 2, 0, 2, 2});
  CHECK(room.ranks == 3);
  CHECK(room.free_bytes == core::free_gpu_bytes(1));
  CHECK(room.free_bytes < core::free_gpu_bytes(0));
}

TEST_CASE("the memory of a process on several GPUs is counted on each of them") {
  if (!emulated()) return;
  std::vector<std::unique_ptr<core::Arena>> arenas;
  std::vector<const core::Arena*> all;
  for (const int gpu : {0, 1, 2}) {
    const core::OnGpu here(gpu);
    arenas.push_back(std::make_unique<core::Arena>(core::Tier::device, (gpu + 1) << 20, core::DeviceKind::cuda));
    all.push_back(arenas.back().get());
    CHECK(arenas.back()->gpu() == gpu);
  }
  const auto memory = runtime::read_process_memory(all).gpu;
  REQUIRE(memory);
  CHECK(memory->arena_bytes == all[0]->mapped_bytes() + all[1]->mapped_bytes() + all[2]->mapped_bytes());
  uint64_t used = 0;
  for (const int gpu : {0, 1, 2}) used += (uint64_t{16} << 30) - core::free_gpu_bytes(gpu);
  CHECK(memory->used_bytes == used);
  CHECK(memory->context_bytes >= 3 * (uint64_t{64} << 20));
  CHECK(memory->context_bytes <= memory->outside_arena_bytes());
}

TEST_CASE("the first lines of a run name each rank's GPU") {
  if (!emulated()) return;
  const std::vector<std::string> lines = runtime::gpu_lines({0, 3}, 4);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("rank 4: host "));
  CHECK(lines[1].find("GPU 3, emulated GPU, " + core::gpu_info(3).uuid) != std::string::npos);
}

}  // namespace zrt::several_gpus_test

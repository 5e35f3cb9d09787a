// Several GPUs: what belongs to which, and who reads whose memory.
#include <thread>

#include "catch.h"
#include "core/arena.h"
#include "core/error.h"
#include "core/gpu.h"
#include "core/stream.h"
#include "tests/device.h"

namespace zrt::gpus_test {

using namespace zrt;
using namespace zrt::core;

namespace {

constexpr uint64_t arena_bytes = 1 << 20;

bool several() {
  if (test::test_device() == DeviceKind::cuda && gpu_count() > 1) return true;
  WARN("skipped: there are no two GPUs");
  return false;
}

}  // namespace

TEST_CASE("memory comes from the GPU that the thread works with") {
  if (!several()) return;
  const uint64_t first = free_gpu_bytes(0), second = free_gpu_bytes(1);
  {
    const OnGpu here(1);
    const Arena arena(Tier::device, arena_bytes, DeviceKind::cuda);
    CHECK(free_gpu_bytes(0) == first);
    CHECK(free_gpu_bytes(1) < second);
  }
  CHECK(free_gpu_bytes(1) == second);
}

TEST_CASE("a new thread works with GPU 0, and a guard gives back what was before it") {
  if (!several()) return;
  const auto taken = [](int gpu) {
    const uint64_t before = free_gpu_bytes(gpu);
    const Arena arena(Tier::device, arena_bytes, DeviceKind::cuda);
    return free_gpu_bytes(gpu) < before;
  };
  const OnGpu here(1);
  {
    const OnGpu inner(0);
    CHECK(taken(0));
  }
  CHECK(taken(1));
  bool of_first = false;
  std::thread([&] { of_first = taken(0); }).join();
  CHECK(of_first);
}

TEST_CASE("a stream stays with its GPU whichever GPU the thread works with that uses it") {
  if (!several()) return;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Arena> arena;
  {
    const OnGpu here(1);
    stream = make_stream(DeviceKind::cuda, "second");
    arena = std::make_unique<Arena>(Tier::device, arena_bytes, DeviceKind::cuda);
  }
  std::byte seen{};
  std::thread([&] {
    stream->run([&] { fill_bytes(arena->data(), 7, arena_bytes); });
    const Event event = stream->record_time();
    stream->synchronize();
    CHECK(event.done());
    read_bytes(&seen, arena->data() + 100, 1, DeviceKind::cuda);
  }).join();
  CHECK(seen == std::byte{7});
}

TEST_CASE("a stream of one GPU waits for an event of another") {
  if (!several()) return;
  const Arena pinned(Tier::host, arena_bytes, DeviceKind::cuda);
  const auto first = make_stream(DeviceKind::cuda, "first");
  std::unique_ptr<Stream> second;
  {
    const OnGpu here(1);
    second = make_stream(DeviceKind::cuda, "second");
  }
  for (uint8_t round = 1; round < 50; ++round) {
    first->run([&] { fill_bytes(pinned.data(), round, 8); });
    second->wait(first->record());
    second->run([&] { copy_bytes(pinned.data() + 8, pinned.data(), 8); });
    first->wait(second->record());
  }
  first->synchronize();
  CHECK(pinned.data()[8] == std::byte{49});
}

TEST_CASE("each GPU says what it is") {
  if (!several()) return;
  const GpuInfo first = gpu_info(0), second = gpu_info(1);
  CHECK(!first.name.empty());
  CHECK(first.uuid.size() == 40);
  CHECK(first.uuid.starts_with("GPU-"));
  CHECK(first.uuid != second.uuid);
}

}  // namespace zrt::gpus_test

// Tests the parts by which processes of one host share GPUs. tests/processes/ranks_test.cpp starts whole processes.
#include "core/peer_memory.h"

#include <sys/mman.h>

#include <atomic>
#include <vector>

#include "catch.h"
#include "core/arena.h"
#include "core/error.h"
#include "tests/device.h"

namespace zrt::peer_memory_test {
namespace {

bool on_gpu() {
  return test::test_device() == core::DeviceKind::cuda;
}

TEST_CASE("a process has handles of its GPU memory, and cannot open its own") {
  if (!on_gpu()) return;
  const core::Arena small(core::Tier::device, 100, core::DeviceKind::cuda),
      other(core::Tier::device, 100, core::DeviceKind::cuda);
  CHECK(core::gpu_handle(small.data()) != core::gpu_handle(other.data()));
  CHECK(core::gpu_handle(small.data()) == core::gpu_handle(small.data()));
  CHECK_THROWS_AS(core::PeerMemory(core::gpu_handle(small.data())), core::Error);
}

TEST_CASE("streams wait for each other by words of memory, of any value and around the end of their range") {
  if (!on_gpu()) return;
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  {
    const core::StreamWords words(page, 4096);
    auto* word = static_cast<uint32_t*>(page);
    const auto writer = core::make_stream(core::DeviceKind::cuda, "writer"),
               reader = core::make_stream(core::DeviceKind::cuda, "reader");
    constexpr size_t bytes = 1 << 20;
    // The bytes lie in the GPU's memory: a copy from host to host would keep this thread until it is done.
    const test::DeviceBytes data(bytes), seen(bytes);
    std::vector<uint8_t> got(bytes);
    // The driver loads its kernel for this at the first use, and may wait for all streams while it does.
    writer->run([&] { core::fill_bytes(data.data(), 0, bytes); });
    writer->synchronize();
    for (const uint32_t value : {1u, 2u, 0x80000000u, 0xffffffffu, 3u}) {
      const auto fill = static_cast<uint8_t>(value + 1);
      // The reader is given its work first: without the wait it would copy what was there before.
      reader->run([&] {
        core::wait_for_word(word, value);
        core::copy_bytes(seen.data(), data.data(), bytes);
      });
      writer->run([&] {
        core::fill_bytes(data.data(), fill, bytes);
        core::write_word(word, value);
      });
      reader->synchronize();
      CHECK(*word == value);
      seen.read(got.data());
      CHECK((got == std::vector<uint8_t>(bytes, fill)));
      std::atomic_ref(*word).store(value);  // a word that has been reached is waited for no longer
      reader->run([&] { core::wait_for_word(word, value - 5); });
      reader->synchronize();
      writer->synchronize();
    }
  }
  munmap(page, 4096);
}

}  // namespace
}  // namespace zrt::peer_memory_test

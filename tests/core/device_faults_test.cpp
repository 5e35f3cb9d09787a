// A GPU that fails, and one that the build has no code for: of the emulated GPU alone, which can be asked to.
#include <atomic>

#include "catch.h"
#include "core/arena.h"
#include "core/error.h"
#include "emulator/faults.h"

namespace zrt::device_faults_test {

using namespace zrt::core;
using Catch::Matchers::Contains;

TEST_CASE("a fault of the device reaches whoever waits for an event or asks for it") {
  const auto gpu = make_stream(DeviceKind::cuda, "gpu"), host = make_stream(DeviceKind::cpu, "host");
  const Event event = gpu->record();
  const zrt::emulator::Fault fault;
  CHECK_THROWS_WITH(event.wait(), Contains("illegal memory access"));
  CHECK_THROWS_WITH(event.done(), Contains("illegal memory access"));
  CHECK_THROWS_WITH(host->wait(event), Contains("illegal memory access"));
  CHECK_THROWS_WITH(gpu->synchronize(), Contains("illegal memory access"));
}

TEST_CASE("a host lane that waits when the device fails skips its tasks and says why") {
  const auto gpu = make_stream(DeviceKind::cuda, "gpu"), host = make_stream(DeviceKind::cpu, "host");
  std::atomic<bool> go = false;
  int ran = 0;
  const Event event = gpu->record();
  host->run([&] {
    while (!go) {
    }
  });
  host->wait(event);
  host->run([&] { ++ran; });
  const zrt::emulator::Fault fault;
  go = true;
  CHECK_THROWS_WITH(host->synchronize(), Contains("illegal memory access"));
  CHECK(ran == 0);
}

TEST_CASE("a GPU for which nothing was compiled is refused with its capability and those of the build") {
  const zrt::emulator::NoImage image;
  CHECK_THROWS_WITH(require_device(DeviceKind::cuda), Contains("emulated GPU has compute capability 9.0") &&
                                                          Contains("was built for the emulated GPU") &&
                                                          Contains("-DZRT_CUDA_ARCHITECTURES=90"));
  CHECK_THROWS_WITH(Arena(Tier::device, 1, DeviceKind::cuda), Contains("has no code"));
}

}  // namespace zrt::device_faults_test

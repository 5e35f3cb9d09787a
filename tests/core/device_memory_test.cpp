// Memory, copies, streams and recordings of the device that the test runs on.
#include <algorithm>

#include "catch.h"
#include "core/arena.h"
#include "core/recording.h"

namespace zrt::device_memory_test {

using namespace zrt::core;
using namespace zrt::test;

namespace {

constexpr size_t bytes = (1 << 20) + 13;

bool holds(const Visible<std::byte>& values, uint8_t value) {
  return std::all_of(values.begin(), values.end(), [&](std::byte b) { return b == std::byte{value}; });
}

}  // namespace

TEST_CASE("bytes are filled and copied in order between the tiers of the device") {
  const Arena device(Tier::device, bytes, test_device()), host(Tier::host, bytes, test_device());
  Visible<std::byte> seen(bytes);
  fill_bytes(device.data(), 7, bytes);
  copy_bytes(host.data(), device.data(), bytes);
  fill_bytes(device.data(), 9, bytes);
  copy_bytes(seen.data(), host.data(), bytes);
  settle();
  CHECK(holds(seen, 7));
  std::byte last{};
  read_bytes(&last, device.data() + bytes - 1, 1, test_device());
  CHECK(last == std::byte{9});
}

TEST_CASE("the highest byte touched is found in memory of the device") {
  for (Tier tier : {Tier::device, Tier::host}) {
    const Arena arena(tier, bytes, test_device());
    CHECK(arena.highest_touched() == 0);
    fill_bytes(arena.data() + 4711, 1, 1);
    settle();
    CHECK(arena.highest_touched() == 4712);
    fill_bytes(arena.data() + bytes, 1, 1);  // into the guard
    settle();
    CHECK(arena.highest_touched() == bytes + 1);
  }
}

TEST_CASE("work of one stream starts behind the event of another") {
  const auto first = make_stream(test_device(), "first"), second = make_stream(test_device(), "second");
  const Arena device(Tier::device, 64 << 20, test_device());
  for (uint8_t turn = 1; turn < 20; ++turn) {
    Visible<std::byte> seen(bytes);
    first->run([&] { fill_bytes(device.data(), turn, device.bytes()); });
    second->wait(first->record());
    second->run([&] { copy_bytes(seen.data(), device.data() + device.bytes() - bytes, bytes); });
    second->synchronize();
    CHECK(holds(seen, turn));
    first->wait(second->record());
  }
  first->synchronize();
}

TEST_CASE("a recording runs nothing when it is made, and all of it in order at each replay", "[cuda]") {
  if (test_device() == DeviceKind::cpu) {
    WARN("skipped: this test is about a GPU");
    return;
  }
  const auto first = make_stream(test_device(), "first"), second = make_stream(test_device(), "second");
  const Arena device(Tier::device, bytes, test_device());
  Visible<std::byte> from(bytes, std::byte{1}), seen(bytes, std::byte{0});
  Stream* const streams[] = {first.get(), second.get()};
  const auto recording = record(streams, [&] {
    first->run([&] { copy_bytes(device.data(), from.data(), bytes); });
    second->wait(first->record());
    second->run([&] { copy_bytes(seen.data(), device.data(), bytes); });
    first->wait(second->record());
  });
  first->synchronize();
  CHECK(holds(seen, 0));
  for (const uint8_t turn : {uint8_t{1}, uint8_t{5}}) {
    std::fill(from.begin(), from.end(), std::byte{turn});
    recording->replay(*first);
    first->synchronize();
    CHECK(holds(seen, turn));
  }
}

TEST_CASE("a recording that would wait for the host is refused", "[cuda]") {
  if (test_device() == DeviceKind::cpu) {
    WARN("skipped: this test is about a GPU");
    return;
  }
  const auto device = make_stream(test_device(), "device"), host = make_stream(DeviceKind::cpu, "host");
  Visible<std::byte> seen(bytes, std::byte{0});
  const Event event = host->record();
  Stream* const streams[] = {device.get()};
  const auto give = [&] {
    device->run([&] { fill_bytes(seen.data(), 1, bytes); });
    device->wait(event);
  };
  CHECK_THROWS_WITH(record(streams, give), Catch::Contains("wait for a CPU stream"));
  device->synchronize();
  CHECK(holds(seen, 0));
  Stream* const both[] = {device.get(), host.get()};
  CHECK_THROWS_WITH(record(both, [] {}), Catch::Contains("'host'"));
}

}  // namespace zrt::device_memory_test

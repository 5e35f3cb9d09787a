#include "core/arena.h"

#include <cstring>

#include "catch.h"
#include "core/error.h"

namespace zrt::core::arena_test {
namespace {

TEST_CASE("a new arena holds nothing but the canary") {
  const Arena arena(Tier::host, 12345);
  CHECK(arena.bytes() == 12345);
  CHECK(arena.tier() == Tier::host);
  CHECK(arena.highest_touched() == 0);
  for (uint64_t i = 0; i < arena.bytes(); ++i) REQUIRE(arena.data()[i] == std::byte{canary_byte});
}

TEST_CASE("the highest byte touched is found to the byte") {
  Arena arena(Tier::device, 1 << 20);
  for (uint64_t offset : {0u, 1u, 7u, 8u, 9u, 4095u, 65536u, (1u << 20) - 1}) {
    arena.data()[offset] = std::byte{0};
    CHECK(arena.highest_touched() == offset + 1);
  }
}

TEST_CASE("a write behind the end shows as more than the arena's bytes") {
  Arena arena(Tier::device, 1000);
  arena.data()[1000] = std::byte{1};
  CHECK(arena.highest_touched() == 1001);
  arena.data()[1000 + 65535] = std::byte{1};
  CHECK(arena.highest_touched() == 1000 + 65536);
}

TEST_CASE("a red zone is intact until any of its bytes changes") {
  std::vector<std::byte> memory(red_zone_bytes + 2, std::byte{0});
  std::byte* zone = memory.data() + 1;
  CHECK(!red_zone_intact(zone));
  paint_red_zone(zone);
  CHECK(red_zone_intact(zone));
  CHECK(memory.front() == std::byte{0});
  CHECK(memory.back() == std::byte{0});
  for (uint64_t i = 0; i < red_zone_bytes; ++i) {
    zone[i] = std::byte{0};
    CHECK(!red_zone_intact(zone));
    zone[i] = std::byte{red_zone_byte};
  }
  CHECK(red_zone_intact(zone));
}

TEST_CASE("the last buffer ends in front of its red zone, whatever it holds, and a write into the zone shows") {
  Arena arena(Tier::host, 4096);
  paint_red_zone(arena.data() + 1000);
  CHECK(arena.highest_touched() == 1000);
  arena.data()[1000 + red_zone_bytes - 1] = std::byte{0};
  CHECK(arena.highest_touched() == 1000 + red_zone_bytes);
}

TEST_CASE("an arena that the system refuses is a memory error that names tier and size") {
  std::string message;
  try {
    const Arena arena(Tier::nvme, uint64_t{1} << 60);
  } catch (const MemoryError& error) {
    message = error.what();
  }
  CHECK(message.find("nvme") != std::string::npos);
  CHECK(message.find("1048576.00 TiB") != std::string::npos);
}

}  // namespace
}  // namespace zrt::core::arena_test

#include "offload/extent_reader.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "catch.h"
#include "core/error.h"
#include "temporary_folder.h"

namespace zrt::extent_reader_test {

using namespace zrt;
using offload::block_alignment;
using offload::BlockFile;
using offload::ExtentReader;

namespace {

constexpr uint64_t extent_bytes = 37 * block_alignment;

struct Fixture {
  testing::TemporaryFolder folder;
  BlockFile file;
  std::vector<std::byte> values;
  std::byte* memory;

  Fixture() : file(options()), values(extent_bytes), memory(allocate()) {
    std::mt19937 random(5);
    for (std::byte& value : values) value = static_cast<std::byte>(random());
    std::memcpy(memory, values.data(), extent_bytes);
    file.write(block_alignment, memory, extent_bytes);
    file.write(0, memory, block_alignment);
  }
  ~Fixture() { ::operator delete[](memory, std::align_val_t(block_alignment)); }

  offload::BlockFileOptions options() const {
    offload::BlockFileOptions options;
    options.folder = folder.path;
    options.bytes = 64 * block_alignment;
    options.piece = 2 * block_alignment;
    return options;
  }
  static std::byte* allocate() {
    return static_cast<std::byte*>(::operator new[](extent_bytes, std::align_val_t(block_alignment)));
  }
};

}  // namespace

TEST_CASE("Any bytes of an extent are read, in any order, with few pieces in memory") {
  Fixture f;
  ExtentReader reader(f.file);
  std::mt19937 random(7);
  std::vector<std::byte> part(extent_bytes);
  for (int turn = 0; turn < 500; ++turn) {
    const uint64_t skip = random() % extent_bytes;
    const uint64_t count = random() % (extent_bytes - skip + 1);
    reader.read(block_alignment, extent_bytes, skip, part.data(), count);
    REQUIRE(std::memcmp(part.data(), f.values.data() + skip, count) == 0);
  }
}

TEST_CASE("Bytes in order are read from the file once") {
  Fixture f;
  ExtentReader reader(f.file);
  std::vector<std::byte> part(1000);
  for (uint64_t at = 0; at < extent_bytes; at += part.size()) {
    reader.read(block_alignment, extent_bytes, at, part.data(), std::min<uint64_t>(part.size(), extent_bytes - at));
  }
  CHECK(f.file.bytes_read() == extent_bytes);
  reader.read(0, block_alignment, 0, part.data(), 10);
  CHECK(f.file.bytes_read() == extent_bytes + block_alignment);
}

TEST_CASE("Parts of extents are whole pieces of what was written") {
  Fixture f;
  CHECK_THROWS_AS(f.file.read_part(block_alignment, extent_bytes, block_alignment, f.memory, 2 * block_alignment),
                  core::ProgramError);
  CHECK_THROWS_AS(f.file.read_part(block_alignment, extent_bytes, 0, f.memory, block_alignment), core::ProgramError);
  CHECK_THROWS_AS(f.file.read_part(block_alignment, 2 * block_alignment, 0, f.memory, 2 * block_alignment),
                  core::DataError);
  ExtentReader reader(f.file);
  CHECK_THROWS_AS(reader.read(block_alignment, extent_bytes, extent_bytes - 1, f.memory, 2), core::ProgramError);
}

}  // namespace zrt::extent_reader_test

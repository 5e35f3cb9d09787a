// Extents that are aliases of others: one has the bytes, all read them, and whichever is written leaves the others
// what they held.
#include <map>
#include <random>

#include "offload/block_file_fixture.h"
#include "offload/extent_reader.h"
#include "offload/refused.h"

namespace zrt::extent_alias_test {

using namespace zrt::testing;
using zrt::core::DataError;
using zrt::core::ProgramError;
using zrt::offload::BlockFile;
using zrt::offload::BlockFileOptions;
using zrt::offload::ExtentPart;

namespace {

constexpr uint64_t extents = 6, piece = 8 * kib, size = 4 * piece + 4 * kib, apart = size + 4 * kib;

BlockFileOptions options_of(const TemporaryFolder& folder) {
  BlockFileOptions options = options_for(folder, extents * apart);
  options.piece = piece;
  return options;
}

AlignedBytes filled(uint32_t seed) {
  AlignedBytes bytes(size);
  bytes.fill(seed);
  return bytes;
}

// True if an extent holds these bytes.
bool reads_as(BlockFile& file, uint64_t extent, const AlignedBytes& bytes) {
  AlignedBytes back(size);
  file.read(extent * apart, back.get(), size);
  return back.equals(bytes);
}

// A file whose extents 1 to 5 are aliases of extent 0.
struct Shared {
  TemporaryFolder folder;
  AlignedBytes bytes = filled(1), nothing = filled(2);
  BlockFile file{options_of(folder)};
  Shared() {
    const ExtentPart all{0, size};
    file.write(0, bytes.get(), size);
    for (uint64_t e = 1; e < extents; ++e) file.write_alias(e * apart, nothing.get(), size, 0, {&all, 1});
  }
};

}  // namespace

TEST_CASE("aliases read what one extent holds, which alone is written") {
  Shared shared;
  CHECK(shared.file.bytes_written() == size);
  CHECK(shared.file.highest_written() == (extents - 1) * apart + size);
  for (uint64_t e = 0; e < extents; ++e) CHECK(reads_as(shared.file, e, shared.bytes));
  // A reader of little parts, across the bounds of pieces, finds the same.
  offload::ExtentReader reader(shared.file);
  std::vector<std::byte> some(3 * piece);
  reader.read(4 * apart, size, piece / 2, some.data(), some.size());
  CHECK(std::memcmp(some.data(), shared.bytes.get() + piece / 2, some.size()) == 0);
}

TEST_CASE("the first write of an extent ends its alias, in any order, and no other extent changes") {
  std::mt19937 random(17);
  std::vector<uint64_t> order(extents);
  for (int turn = 0; turn < 40; ++turn) {
    for (uint64_t e = 0; e < extents; ++e) order[e] = e;
    // In order, in reverse, and at random.
    if (turn == 1) std::reverse(order.begin(), order.end());
    if (turn > 1) std::shuffle(order.begin(), order.end(), random);
    Shared shared;
    std::map<uint64_t, AlignedBytes> written;
    uint64_t moved = size;
    for (const uint64_t e : order) {
      const auto& own = written.emplace(e, filled(static_cast<uint32_t>(10 + e))).first->second;
      shared.file.write(e * apart, own.get(), size);
      CHECK(shared.file.bytes_written() == (moved += size));
      for (uint64_t other = 0; other < extents; ++other) {
        const auto found = written.find(other);
        CHECK(reads_as(shared.file, other, found == written.end() ? shared.bytes : found->second));
      }
    }
    // Later writes stay where the first ones went.
    for (const uint64_t e : order) shared.file.write(e * apart, shared.bytes.get(), size);
    for (uint64_t e = 0; e < extents; ++e) CHECK(reads_as(shared.file, e, shared.bytes));
    CHECK(shared.file.highest_written() == (extents - 1) * apart + size);
  }
}

TEST_CASE("whatever is written and made an alias of what, every extent holds its own bytes") {
  std::mt19937 random(23);
  const TemporaryFolder folder;
  BlockFile file(options_of(folder));
  std::vector<AlignedBytes> held;
  for (uint32_t e = 0; e < extents; ++e) {
    held.push_back(filled(e));
    file.write(e * apart, held[e].get(), size);
  }
  uint64_t expected = extents * size;
  for (uint32_t turn = 0; turn < 3000; ++turn) {
    const uint64_t e = random() % extents, of = random() % extents;
    const AlignedBytes bytes = filled(100 + turn);
    std::vector<ExtentPart> parts;
    if (e != of && turn % 3 != 0) {
      // Every piece is equal or not.
      for (uint64_t begin = 0; begin < size; begin += piece) {
        if (random() % 2 != 0) parts.push_back({begin, std::min(begin + piece, size)});
      }
    }
    file.write_alias(e * apart, bytes.get(), size, of * apart, parts);
    std::memcpy(held[e].get(), bytes.get(), size);
    expected += size;
    for (const ExtentPart& part : parts) {
      std::memcpy(held[e].get() + part.begin, held[of].get() + part.begin, part.end - part.begin);
      expected -= part.end - part.begin;
    }
    bool all = true;
    for (uint64_t other = 0; other < extents; ++other) all = all && reads_as(file, other, held[other]);
    INFO("turn " << turn);
    REQUIRE(all);
  }
  CHECK(file.bytes_written() == expected);
}

TEST_CASE("a file says which bytes are an alias") {
  Shared shared;
  BlockFile& file = shared.file;
  const auto aliases = [&](uint64_t extent) { return file.is_alias(extent * apart, size, 0, size); };
  CHECK(!aliases(0));
  for (uint64_t e = 1; e < extents; ++e) CHECK(aliases(e));
  // The first one leaves its place to the last one, of which the others are aliases from then on.
  file.write(0, shared.nothing.get(), size);
  CHECK(!aliases(0));
  CHECK(!aliases(extents - 1));
  for (uint64_t e = 1; e + 1 < extents; ++e) CHECK(aliases(e));
  const ExtentPart part{piece, 3 * piece};
  file.write_alias(apart, shared.nothing.get(), size, 2 * apart, {&part, 1});
  const auto within = [&](uint64_t skip, uint64_t count) { return file.is_alias(apart, size, skip, count); };
  CHECK(within(piece, 2 * piece));
  CHECK(within(2 * piece + 5, 7));
  CHECK(!within(0, piece));
  CHECK(!within(piece - 1, piece));
  CHECK(!within(2 * piece, piece + 1));
}

TEST_CASE("a bit that changed on the disk is found in every alias, and where it lies is named") {
  Shared shared;
  flip_bit(way_into(shared.file.path()), 2 * piece + 5);
  for (uint64_t e = 0; e < extents; ++e) {
    AlignedBytes back(size);
    const std::string text = message_of([&] { shared.file.read(e * apart, back.get(), size); });
    INFO(text);
    CHECK(contains(text, "8192 bytes at 16384 cannot be read: what comes back is not what was written"));
  }
}

TEST_CASE("a write that fails takes nothing from the aliases of what it was to replace") {
  with_refused({SYS_io_uring_setup, EPERM}, [&] {
    Shared shared;
    refuse({SYS_pwrite64, EIO});
    for (const uint64_t e : {uint64_t{0}, extents - 1}) {
      const std::string text = message_of([&] { shared.file.write(e * apart, shared.nothing.get(), size); });
      CHECK(contains(text, "cannot be written: Input/output error"));
      AlignedBytes back(size);
      CHECK(contains(message_of([&] { shared.file.read(e * apart, back.get(), size); }), "writing it failed"));
    }
    for (uint64_t e = 1; e + 1 < extents; ++e) CHECK(reads_as(shared.file, e, shared.bytes));
  });
}

TEST_CASE("an extent that shares its bytes keeps its bounds, and aliases are whole pieces of what is there") {
  Shared shared;
  BlockFile& file = shared.file;
  const auto alias = [&](uint64_t offset, uint64_t bytes, uint64_t of, std::vector<ExtentPart> parts) {
    file.write_alias(offset, shared.nothing.get(), bytes, of, parts);
  };
  CHECK_THROWS_AS(file.write(0, shared.nothing.get(), piece), ProgramError);
  CHECK_THROWS_AS(file.write(apart - piece, shared.nothing.get(), piece), ProgramError);
  for (const ExtentPart& part : {ExtentPart{0, piece / 2}, ExtentPart{4 * kib, piece}, ExtentPart{piece, piece},
                                 ExtentPart{4 * piece, 5 * piece}, ExtentPart{2 * piece, piece}}) {
    CHECK_THROWS_AS(alias(apart, size, 0, {part}), ProgramError);
  }
  CHECK_THROWS_AS(alias(apart, size, 0, {{piece, 2 * piece}, {0, piece}}), ProgramError);
  for (uint64_t e = 0; e < extents; ++e) CHECK(reads_as(file, e, shared.bytes));
  // An alias of itself, of nothing, and of an extent of another size is refused.
  const TemporaryFolder folder;
  BlockFile other(options_of(folder));
  other.write(0, shared.bytes.get(), piece);
  for (const uint64_t of : {uint64_t{0}, apart, 2 * apart}) {
    const ExtentPart all{0, size};
    CHECK_THROWS_AS(other.write_alias(2 * apart, shared.bytes.get(), size, of, {&all, 1}), DataError);
    AlignedBytes back(size);
    CHECK_THROWS_AS(other.read(2 * apart, back.get(), size), DataError);
  }
}

TEST_CASE("a file says whether it has all its space from the start") {
  const TemporaryFolder folder;
  CHECK(BlockFile(options_of(folder)).space_taken());
  with_refused({SYS_fallocate, EOPNOTSUPP}, [&] { CHECK(!BlockFile(options_of(folder)).space_taken()); });
}

}  // namespace zrt::extent_alias_test

#include "offload/block_file.h"

#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <random>

#include "offload/block_file_fixture.h"
#include "offload/refused.h"

namespace zrt::block_file_test {

using namespace zrt::testing;
using zrt::core::DataError;
using zrt::core::ProgramError;
using zrt::offload::BlockFile;
using zrt::offload::BlockFileOptions;

namespace {

// Containers often forbid it; what is fallen back on then has its own tests.
bool uring_permitted() {
  char parameters[256] = {};
  const long ring = ::syscall(SYS_io_uring_setup, 1, parameters);
  if (ring >= 0) ::close(static_cast<int>(ring));
  return ring >= 0;
}

// Buffers that the kernel has pinned for this process' only ring.
int pinned_buffers() {
  for (const int ring : descriptors_of("[io_uring]")) {
    std::ifstream info("/proc/self/fdinfo/" + std::to_string(ring));
    for (std::string line; std::getline(info, line);) {
      if (line.starts_with("UserBufs:")) return std::stoi(line.substr(9));
    }
  }
  return -1;
}

void check_round_trip(BlockFile& file, uint64_t offset, const AlignedBytes& bytes) {
  AlignedBytes back(bytes.size);
  file.write(offset, bytes.get(), bytes.size);
  file.read(offset, back.get(), bytes.size);
  CHECK(back.equals(bytes));
}

}  // namespace

TEST_CASE("extents of every size come back as they were last written, in any order") {
  const TemporaryFolder folder;
  BlockFile file(options_for(folder, 64 * mib));
  struct Extent {
    uint64_t offset;
    AlignedBytes bytes;
  };
  std::vector<Extent> extents;
  uint64_t end = 0, moved = 0;
  for (const uint64_t size : {4 * kib, mib - 4 * kib, mib, mib + 4 * kib, 12 * kib, 5 * mib, 3 * mib + 8 * kib,
                              20 * mib + 4 * kib, 64 * kib}) {
    extents.push_back({end, AlignedBytes(size)});
    end += size + 4 * kib;
  }
  std::mt19937 random(7);
  for (uint32_t turn = 0; turn < 3; ++turn) {
    std::shuffle(extents.begin(), extents.end(), random);
    for (uint32_t i = 0; const Extent& e : extents) {
      e.bytes.fill(100 * turn + i++);
      file.write(e.offset, e.bytes.get(), e.bytes.size);
      moved += e.bytes.size;
    }
    std::shuffle(extents.begin(), extents.end(), random);
    for (const Extent& e : extents) {
      AlignedBytes back(e.bytes.size);
      file.read(e.offset, back.get(), back.size);
      CHECK(back.equals(e.bytes));
    }
  }
  CHECK(file.bytes_written() == moved);
  CHECK(file.bytes_read() == moved);
  CHECK(file.highest_written() == end - 4 * kib);
}

TEST_CASE("many extents in pieces of another size, one transfer at a time") {
  const TemporaryFolder folder;
  BlockFileOptions options = options_for(folder, 16 * mib);
  options.piece = 8 * kib;
  options.depth = 1;
  BlockFile file(options);
  AlignedBytes all(16 * mib), back(16 * mib);
  all.fill(1);
  for (uint64_t at = 0; at < all.size; at += 20 * kib) {
    file.write(at, all.get() + at, std::min(20 * kib, all.size - at));
  }
  for (uint64_t at = 0; at < all.size; at += 20 * kib) {
    file.read(at, back.get() + at, std::min(20 * kib, all.size - at));
  }
  CHECK(back.equals(all));
}

TEST_CASE("a bit that changed on the disk is found, and the piece is named") {
  const TemporaryFolder folder;
  BlockFile file(options_for(folder, 8 * mib));
  AlignedBytes bytes(5 * mib + 4 * kib), back(bytes.size);
  bytes.fill(3);
  for (const uint64_t at : {uint64_t{0}, 2 * mib + 77, 5 * mib + 4 * kib - 1}) {
    file.write(mib, bytes.get(), bytes.size);
    flip_bit(way_into(file.path()), mib + at);
    const std::string text = message_of([&] { file.read(mib, back.get(), back.size); });
    INFO(text);
    CHECK(contains(text, file.path().string() + ": "));
    CHECK(contains(text, " bytes at " + std::to_string(mib + at / mib * mib) + " cannot be read"));
    CHECK(contains(text, "the disk or another program changed it"));
  }
  check_round_trip(file, mib, bytes);
}

TEST_CASE("a file that was cut short is named at the next read and write") {
  const TemporaryFolder folder;
  AlignedBytes bytes(2 * mib);
  bytes.fill(4);
  BlockFile file(options_for(folder, 8 * mib));
  file.write(0, bytes.get(), bytes.size);
  std::filesystem::resize_file(way_into(file.path()), 7 * mib);
  const std::string wanted = file.path().string() + ": was truncated: it ends at byte 7340032";
  CHECK(contains(message_of([&] { file.read(0, bytes.get(), bytes.size); }), wanted));
  CHECK(contains(message_of([&] { file.write(0, bytes.get(), bytes.size); }), wanted));
}

TEST_CASE("a descriptor that something else closed, or gave to another file, is told") {
  const TemporaryFolder folder;
  AlignedBytes bytes(mib);
  bytes.fill(5);
  BlockFile file(options_for(folder, 2 * mib));
  file.write(0, bytes.get(), bytes.size);
  const int descriptor = descriptor_of(file.path());
  SECTION("closed") {
    ::close(descriptor);
  }
  SECTION("another file") {
    const int other = ::open((folder.path / "other").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(::dup2(other, descriptor) == descriptor);
    ::close(other);
  }
  CHECK(contains(message_of([&] { file.read(0, bytes.get(), bytes.size); }), "closed its descriptor"));
  CHECK(contains(message_of([&] { file.write(0, bytes.get(), bytes.size); }), "closed its descriptor"));
}

TEST_CASE("an extent is read only as it was written") {
  const TemporaryFolder folder;
  BlockFile file(options_for(folder, 8 * mib));
  AlignedBytes bytes(4 * mib);
  bytes.fill(6);
  const auto reading = [&](uint64_t offset, uint64_t size) {
    return message_of([&] { file.read(offset, bytes.get(), size); });
  };
  CHECK(contains(reading(0, mib), "no extent was written there"));
  file.write(mib, bytes.get(), 2 * mib);
  CHECK(contains(reading(mib, mib), "written with 2097152"));
  CHECK(contains(reading(2 * mib, mib), "no extent was written there"));
  CHECK(reading(mib, 2 * mib) == "no error");
  SECTION("what a later extent covers in part is gone") {
    file.write(2 * mib, bytes.get(), 4 * kib);
    CHECK(contains(reading(mib, 2 * mib), "no extent was written there"));
    CHECK(reading(2 * mib, 4 * kib) == "no error");
  }
  SECTION("also when the later one begins before it") {
    file.write(0, bytes.get(), mib + 4 * kib);
    CHECK(contains(reading(mib, 2 * mib), "no extent was written there"));
  }
  SECTION("neighbours stay") {
    file.write(0, bytes.get(), mib);
    file.write(3 * mib, bytes.get(), mib);
    CHECK(reading(mib, 2 * mib) == "no error");
  }
}

TEST_CASE("after a write that failed there is nothing to read") {
  const TemporaryFolder folder;
  AlignedBytes bytes(2 * mib);
  bytes.fill(7);
  with_refused({SYS_io_uring_setup, EPERM}, [&] {
    BlockFile file(options_for(folder, 2 * mib));
    file.write(0, bytes.get(), bytes.size);
    refuse({SYS_pwrite64, EIO});
    const std::string text = message_of([&] { file.write(0, bytes.get(), bytes.size); });
    INFO(text);
    CHECK(contains(text, "cannot be written: Input/output error"));
    CHECK(contains(message_of([&] { file.read(0, bytes.get(), bytes.size); }), "writing it failed"));
  });
}

TEST_CASE("registered memory is pinned, and pieces inside, across and outside of it move alike") {
  const TemporaryFolder folder;
  Warnings warnings;
  BlockFileOptions options = options_for(folder, 8 * mib);
  options.warn = warnings.take();
  BlockFile file(options);
  AlignedBytes bytes(6 * mib), back(6 * mib);
  bytes.fill(8);
  file.register_memory(bytes.get() + 512 * kib, 2 * mib);
  file.register_memory(back.get(), mib + 64 * kib);
  CHECK(pinned_buffers() == (uring_permitted() ? 2 : -1));
  file.write(0, bytes.get(), bytes.size);
  file.read(0, back.get(), back.size);
  CHECK(back.equals(bytes));
}

TEST_CASE("memory beyond the limit for locked memory costs one warning and nothing else") {
  if (!uring_permitted()) {
    WARN("io_uring is not permitted here; this test shows nothing");
    return;
  }
  const TemporaryFolder folder;
  Warnings warnings;
  AlignedBytes bytes(4 * mib), more(4 * mib);
  bytes.fill(9);
  rlimit before{};
  getrlimit(RLIMIT_MEMLOCK, &before);
  const rlimit little{64 * kib, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &little) == 0);
  on_thread([&] {
    drop_capability(CAP_IPC_LOCK);
    BlockFileOptions options = options_for(folder, 4 * mib);
    options.warn = warnings.take();
    BlockFile file(options);
    file.register_memory(bytes.get(), 16 * kib);
    CHECK(warnings.texts.empty());
    file.register_memory(more.get(), more.size);
    file.register_memory(bytes.get() + mib, mib);
    CHECK(pinned_buffers() == 1);  // what fits stays
    check_round_trip(file, 0, bytes);
  });
  setrlimit(RLIMIT_MEMLOCK, &before);
  REQUIRE(warnings.texts.size() == 1);
  INFO(warnings.texts[0]);
  CHECK(contains(warnings.texts[0], "does not pin 4.00 MiB"));
  CHECK(contains(warnings.texts[0], "is 64.00 KiB, ulimit -l"));
}

TEST_CASE("memory that can no longer be pinned is moved without") {
  if (!uring_permitted()) {
    WARN("io_uring is not permitted here; this test shows nothing");
    return;
  }
  const TemporaryFolder folder;
  Warnings warnings;
  AlignedBytes bytes(2 * mib), more(2 * mib);
  bytes.fill(12);
  more.fill(13);
  on_thread([&] {
    BlockFileOptions options = options_for(folder, 4 * mib);
    options.warn = warnings.take();
    BlockFile file(options);
    file.register_memory(bytes.get(), bytes.size);
    refuse({SYS_io_uring_register, ENOMEM, 3, 0xff});  // of how many buffers; to let go of them is allowed
    file.register_memory(more.get(), more.size);
    check_round_trip(file, 0, bytes);
    check_round_trip(file, 2 * mib, more);
  });
  CHECK(warnings.texts.size() == 1);
}

TEST_CASE("without io_uring or direct I/O there is a warning, and the same bytes") {
  const TemporaryFolder folder;
  AlignedBytes bytes(3 * mib + 4 * kib);
  bytes.fill(10);
  struct Case {
    RefusedCall refused;
    const char* warning;
  };
  for (const Case& c : {Case{{SYS_io_uring_setup, EPERM}, "does not permit io_uring (Operation not permitted)"},
                        Case{{SYS_io_uring_setup, ENOSYS}, "does not permit io_uring (Function not implemented)"},
                        Case{{SYS_fcntl, EINVAL, 2, O_DIRECT}, "no direct I/O (Invalid argument)"},
                        Case{{SYS_fallocate, EOPNOTSUPP}, "cannot set space aside"}}) {
    Warnings warnings;
    with_refused(c.refused, [&] {
      BlockFileOptions options = options_for(folder, 4 * mib);
      options.warn = warnings.take();
      BlockFile file(options);
      file.register_memory(bytes.get(), bytes.size);
      check_round_trip(file, 4 * kib, bytes);
    });
    REQUIRE(warnings.texts.size() == 1);
    INFO(warnings.texts[0]);
    CHECK(contains(warnings.texts[0], "rank-0.zrt: "));
    CHECK(contains(warnings.texts[0], c.warning));
  }
}

TEST_CASE("no io_uring for a reason that is no policy is an error, and leaves no file") {
  const TemporaryFolder folder;
  with_refused({SYS_io_uring_setup, EMFILE}, [&] {
    CHECK(contains(message_of([&] { BlockFile file(options_for(folder, mib)); }),
                   "io_uring cannot be set up: Too many open files"));
  });
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("a slowed file never exceeds its pace") {
  const TemporaryFolder folder;
  BlockFileOptions options = options_for(folder, 4 * mib);
  options.bytes_per_second = 40.0 * mib;
  BlockFile file(options);
  AlignedBytes bytes(2 * mib);
  bytes.fill(11);
  const auto begin = std::chrono::steady_clock::now();
  file.write(0, bytes.get(), bytes.size);
  file.write(2 * mib, bytes.get(), bytes.size);
  file.read(0, bytes.get(), bytes.size);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(seconds >= 6.0 / 40.0);
}

TEST_CASE("sizes, places and addresses that direct I/O cannot use are refused") {
  const TemporaryFolder folder;
  BlockFileOptions options = options_for(folder, mib);
  AlignedBytes bytes(2 * mib);
  BlockFile file(options);
  CHECK_THROWS_AS(file.write(0, bytes.get(), 100), ProgramError);
  CHECK_THROWS_AS(file.write(512, bytes.get(), 4 * kib), ProgramError);
  CHECK_THROWS_AS(file.write(0, bytes.get() + 512, 4 * kib), ProgramError);
  CHECK_THROWS_AS(file.write(0, bytes.get(), 2 * mib), ProgramError);
  CHECK_THROWS_AS(file.read(mib, bytes.get(), 4 * kib), ProgramError);
  CHECK_THROWS_AS(file.read(~uint64_t{4095}, bytes.get(), 8 * kib), ProgramError);
  options.rank = 1;
  for (auto change : {+[](BlockFileOptions& o) { o.bytes += 1; }, +[](BlockFileOptions& o) { o.depth = 0; },
                      +[](BlockFileOptions& o) { o.piece = 0; }, +[](BlockFileOptions& o) { o.piece += 512; }}) {
    BlockFileOptions wrong = options;
    change(wrong);
    CHECK_THROWS_AS(BlockFile(wrong), ProgramError);
  }
}

}  // namespace zrt::block_file_test

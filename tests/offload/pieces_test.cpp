// The order and the accidents of transfers, on a disk that is a vector and fails when told.
#include "offload/pieces.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <random>

#include "offload/block_file_fixture.h"

namespace zrt::pieces_test {

using namespace zrt::testing;
using zrt::offload::Memory;
using zrt::offload::PieceMover;
using zrt::offload::Transfer;
using zrt::offload::Transfers;

namespace {

struct Disk {
  explicit Disk(uint64_t bytes) : data(bytes) {}
  std::vector<std::byte> data;
  std::deque<int64_t> results;  // of the next transfers: minus an errno, or the most that they move; then as asked
  uint64_t refuse_start = ~uint64_t{0};
  uint64_t started = 0, in_flight = 0, most_in_flight = 0;
};

// Transfers end in a random order, and only then touch memory or disk.
class FakeTransfers : public Transfers {
 public:
  explicit FakeTransfers(Disk& disk) : disk_(disk) {}

  void start(unsigned slot, const Transfer& t) override {
    REQUIRE((t.offset | t.bytes | reinterpret_cast<uintptr_t>(t.data)) % 4096 == 0);
    if (disk_.started++ == disk_.refuse_start) throw zrt::core::DataError("no more");
    flying_.push_back({slot, t});
    disk_.most_in_flight = std::max(disk_.most_in_flight, disk_.in_flight = flying_.size());
  }

  Done wait() override {
    REQUIRE(!flying_.empty());
    std::swap(flying_[random_() % flying_.size()], flying_.back());
    const auto [slot, t] = flying_.back();
    flying_.pop_back();
    disk_.in_flight = flying_.size();
    auto result = static_cast<int64_t>(t.bytes);
    if (!disk_.results.empty()) {
      result = std::min(result, disk_.results.front());
      disk_.results.pop_front();
    }
    const auto bytes = static_cast<size_t>(std::max<int64_t>(0, result));
    std::byte* place = disk_.data.data() + t.offset;
    t.writes ? std::memcpy(place, t.data, bytes) : std::memcpy(t.data, place, bytes);
    return {slot, result};
  }

  int pin(const std::vector<Memory>&) override { return 0; }

 private:
  Disk& disk_;
  std::vector<std::pair<unsigned, Transfer>> flying_;
  std::mt19937 random_{3};
};

struct Rig {
  Disk disk{4 * mib};
  PieceMover mover;
  AlignedBytes bytes{mib + 4 * kib}, back{mib + 4 * kib};
  std::vector<uint64_t> places, hashes;
  explicit Rig(unsigned depth = 8) : mover("the file", std::make_unique<FakeTransfers>(disk), depth, 64 * kib) {
    bytes.fill(1);
    for (uint64_t at = 0; at < bytes.size; at += 64 * kib) places.push_back(8 * kib + at);
    hashes.resize(places.size());
  }
  void write() { mover.write(places, bytes.get(), bytes.size, hashes); }
  void read() { mover.read(places, back.get(), back.size, hashes); }
};

}  // namespace

TEST_CASE("as many transfers are in flight as allowed, and never more") {
  Rig rig;
  rig.write();
  CHECK(rig.disk.most_in_flight == 8);
  rig.disk.most_in_flight = 0;
  rig.read();
  CHECK(rig.disk.most_in_flight == 8);
  CHECK(rig.hashes.size() == 17);
  CHECK(rig.back.equals(rig.bytes));
}

TEST_CASE("short and interrupted transfers are continued from an aligned place, in any order") {
  Rig rig;
  std::mt19937 random(11);
  for (const bool writing : {true, false}) {
    for (int i = 0; i < 60; ++i) {
      const int64_t results[] = {-EINTR, -EAGAIN, 4096, 12288, 5000, 100, 60000};
      rig.disk.results.push_back(results[random() % 7]);
    }
    writing ? rig.write() : rig.read();
    CHECK(rig.disk.results.empty());
  }
  CHECK(rig.back.equals(rig.bytes));
  CHECK(std::memcmp(rig.disk.data.data() + 8 * kib, rig.bytes.get(), rig.bytes.size) == 0);
}

TEST_CASE("an error of the system names the file, the piece and the reason, with nothing left in flight") {
  struct Case {
    int error;
    const char* reason;
  };
  for (const Case& c : {Case{EIO, "Input/output error; the disk or the way to it failed"},
                        Case{ENOSPC, "No space left on device; its space had been taken"},
                        Case{EROFS, "Read-only file system; the file system has become read-only"},
                        Case{EBADF, "Bad file descriptor; something else in this process closed"},
                        Case{EINVAL, "Invalid argument; the disk may want transfers aligned to more"}}) {
    for (const bool writing : {true, false}) {
      Rig rig;
      if (!writing) rig.write();
      rig.disk.results.assign({64 * kib, 64 * kib, -c.error});
      const std::string text = message_of([&] { writing ? rig.write() : rig.read(); });
      INFO(text);
      CHECK(contains(text, "the file: 65536 bytes at "));
      CHECK(contains(text, std::string(" cannot be ") + (writing ? "written: " : "read: ") + c.reason));
      CHECK(rig.disk.in_flight == 0);
      CHECK(rig.disk.started < 17 + (writing ? 0 : 17));  // nothing new was begun after it
      rig.write();                                        // the mover is as good as new
      rig.read();
      CHECK(rig.back.equals(rig.bytes));
    }
  }
}

TEST_CASE("a transfer that moves nothing any more ends, as one that is interrupted for ever does") {
  Rig rig(1);
  rig.write();
  rig.disk.results.assign(4000, 100);
  CHECK(contains(message_of([&] { rig.read(); }), "100 of 65536 bytes were moved and then no more"));
  rig.disk.results.assign(4000, 0);
  CHECK(contains(message_of([&] { rig.write(); }), "0 of 65536 bytes were moved and then no more"));
  rig.disk.results.assign(4000, -EAGAIN);
  CHECK(contains(message_of([&] { rig.write(); }), "Resource temporarily unavailable"));
}

TEST_CASE("a piece with another hash is named, with nothing left in flight") {
  Rig rig;
  rig.write();
  rig.disk.data[8 * kib + 3 * 64 * kib + 17] ^= std::byte{1};
  const std::string text = message_of([&] { rig.read(); });
  INFO(text);
  CHECK(contains(text, "the file: 65536 bytes at 204800 cannot be read: what comes back is not what was written"));
  CHECK(rig.disk.in_flight == 0);
}

TEST_CASE("when the kernel takes no request, those in flight are waited for") {
  Rig rig;
  rig.disk.refuse_start = 5;
  CHECK(message_of([&] { rig.write(); }) == "no more");
  CHECK(rig.disk.in_flight == 0);
}

}  // namespace zrt::pieces_test

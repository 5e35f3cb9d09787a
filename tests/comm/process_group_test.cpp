// Tests what the protocol between processes adds to collectives: shared arenas, frames, machines.
#include <fmt/format.h>

#include "catch.h"
#include "core/error.h"
#include "core/hash.h"
#include "ranks.h"
#include "values.h"

namespace zrt::comm::process_group_test {
namespace {

using namespace std::chrono_literals;

// Memory of each rank for the calls below: in arenas for some ranks, on the heap for the others.
struct RankMemory {
  std::unique_ptr<core::Arena> arena;
  std::vector<float> heap;
  float *a, *b;
  RankMemory(bool shared, int64_t count) {
    const auto elements = static_cast<size_t>(count);
    if (shared) {
      arena = test_arenas().make(core::Tier::device, 2 * elements * sizeof(float));
    } else {
      heap.resize(2 * elements);
    }
    a = shared ? reinterpret_cast<float*>(arena->data()) : heap.data();
    b = a + elements;
  }
};

constexpr int64_t room = 300000;  // elements: up to nine frames

// Random calls of all kinds on one group; the hash of all ranks' results.
std::string run_calls(Group& group, const std::vector<bool>& shared, int calls) {
  const int size = static_cast<int>(group.size());
  std::vector<core::Hash> hashes(group.size());
  run_ranks(group, [&](Communicator& c) {
    RankMemory memory(shared[static_cast<size_t>(c.rank())], room);
    float *a = memory.a, *b = memory.b;
    for (int64_t k = 0; k < room; ++k) b[k] = 0;
    for (uint64_t i = 0; i < static_cast<uint64_t>(calls); ++i) {
      const auto draw = core::philox({.seed = 5, .step = 0, .tensor = 1}, i);
      const int64_t most = draw[1] % 3 == 0 ? room / 8 : 700, n = draw[2] % most;
      for (int64_t k = 0; k < n * 2 + 8; ++k) {
        const auto rank = static_cast<uint32_t>(c.rank());
        a[k] = core::uniform(core::random_word({.seed = i, .step = 0, .tensor = rank}, static_cast<uint64_t>(k)));
      }
      const ReduceRange reduce_ranges[2]{{a, b, n / size, (draw[3] & 1) != 0}, {a + n, b + n, n / size / 2, false}};
      const ReduceRange in_place{a, a + c.rank() * (n / size), n / size, false};
      const GatherRange gather_ranges[2]{{a, b, n / size}, {a + n, b + n, 5}};
      const Message sends[2]{{(c.rank() + 1) % size, a, static_cast<uint64_t>(4 * n)}, {0, a, 9}};
      std::vector<Message> receives{{(c.rank() + size - 1) % size, b, static_cast<uint64_t>(4 * n)}};
      if (c.rank() == 0) {
        for (int r = 0; r < size; ++r) receives.push_back({r, b + n + 3 * r, 9});
      }
      std::vector<int64_t> used;  // another list for each reader, or none
      for (int r = 0; draw[3] % 3 > 0 && r < size; ++r) {
        used.push_back((int64_t{draw[3] / 3} * (r + 1) + c.rank()) % (n / size + 1));
      }
      switch (draw[0] % 7) {
        case 0:
          c.all_reduce(a, n, DType::f32, "r");
          break;
        case 1:
          c.reduce_scatter(reduce_ranges, DType::f32, DType::f32, "s");
          break;
        case 2:
          c.all_gather(gather_ranges, DType::f32, "g");
          break;
        case 3:
          c.all_to_all(a, b, n / size, DType::f32, "t", used);
          break;
        case 4:
          c.broadcast(a, n, DType::f32, static_cast<int>(draw[3] % static_cast<uint32_t>(size)), "b");
          break;
        case 5:
          c.reduce_scatter({&in_place, 1}, DType::f32, DType::f32, "i");
          break;
        default:
          c.send_recv(sends, receives, "p");
          break;
      }
      hashes[static_cast<size_t>(c.rank())].update(a, static_cast<size_t>(2 * n) * sizeof(float));
      hashes[static_cast<size_t>(c.rank())].update(b, static_cast<size_t>(2 * n) * sizeof(float));
    }
  });
  std::string text;
  for (const core::Hash& hash : hashes) text += hash.hex();
  return text;
}

TEST_CASE("arenas and other memory, on one machine and on several, give the bits that threads give") {
  ZRT_ONLY_ON_CPU();
  const int calls = std::getenv("ZRT_FULL_TESTS") ? 600 : 120;
  for (int size : {2, 3, 4}) {
    const auto ranks = static_cast<size_t>(size);
    Group threads = make_thread_group("dp", size, 60s);
    const std::string expected = run_calls(threads, std::vector<bool>(ranks, false), calls);
    for (const std::vector<int>& machines : {std::vector<int>{0, 0, 0, 0}, {0, 0, 1, 1}, {0, 1, 2, 3}, {0, 1, 1, 0}}) {
      for (int sharing = 0; sharing < 3; ++sharing) {
        std::vector<bool> shared;
        for (size_t r = 0; r < ranks; ++r) shared.push_back(sharing == 0 || (sharing == 1 && r != 1));
        Group group = make_process_group({machines.begin(), machines.begin() + size}, 60s);
        INFO(size << " ranks, machines "
                  << fmt::format("{},{},{},{}", machines[0], machines[1], machines[2], machines[3]) << ", sharing "
                  << sharing);
        CHECK(run_calls(group, shared, calls) == expected);
      }
    }
  }
}

struct CountingChannel final : WrappedChannel {
  std::atomic<int>* data_frames = nullptr;
  bool send(FrameKind kind, std::span<const std::byte> bytes) override {
    const bool sent = channel->send(kind, bytes);
    if (sent && kind == FrameKind::data) ++*data_frames;
    return sent;
  }
};

TEST_CASE("within a machine what lies in arenas travels in no frame, and what does not in the fewest") {
  ZRT_ONLY_ON_CPU();
  std::atomic<int> frames{0};
  const auto count = [&](Membership& membership) {
    for (Peer& peer : membership.peers) {
      if (!peer.channel) continue;
      auto counting = std::make_unique<CountingChannel>();
      counting->channel = std::move(peer.channel);
      counting->data_frames = &frames;
      peer.channel = std::move(counting);
    }
  };
  Group group = make_process_group({0, 0, 0}, 60s, count);
  run_calls(group, {true, true, true}, 60);
  CHECK(frames == 0);
  Group heap = make_process_group({0, 0}, 60s, count);
  run_ranks(heap, [](Communicator& c) {
    std::vector<std::byte> own(frame_bytes + 1), all(2 * own.size());
    const GatherRange range{own.data(), all.data(), static_cast<int64_t>(own.size())};
    c.all_gather({&range, 1}, DType::u8, "gather");
  });
  CHECK(frames == 4);  // a full frame and one byte, each way
}

TEST_CASE("an address in an arena is found while the arena lives, and never read past its end") {
  ZRT_ONLY_ON_CPU();
  SharedArenas arenas;
  auto arena = arenas.make(core::Tier::host, 1 << 20);
  std::byte* inside = arena->data() + 4096;
  const auto address = arenas.locate(inside, 100);
  REQUIRE(address);
  inside[7] = std::byte{0x5c};
  const std::byte* view = arenas.resolve(getpid(), *address, 100);
  CHECK(view != inside);
  CHECK(view[7] == std::byte{0x5c});
  CHECK(arena->highest_touched() == 4096 + 8);
  CHECK_FALSE(arenas.locate(inside, arena->mapped_bytes()));
  int outside = 0;
  CHECK_FALSE(arenas.locate(&outside, 4));
  SharedAddress wrong = *address;
  wrong.offset = wrong.arena_bytes - 50;
  CHECK_THROWS_AS(arenas.resolve(getpid(), wrong, 51), core::CommError);
  CHECK_THROWS_WITH(SharedMemory(getpid(), 999999, 4096, false), Catch::Contains("ZRT_HOST_GROUP"));
  arena = nullptr;
  CHECK_FALSE(arenas.locate(inside, 100));
}

TEST_CASE("a call that arrives cut short at any byte is refused") {
  ZRT_ONLY_ON_CPU();
  SharedArenas arenas;
  auto arena = arenas.make(core::Tier::device, 4096);
  CollectiveCall call;
  call.kind = CollectiveKind::all_gather;
  call.from = call.to = DType::bf16;
  call.label = "gather h.0";
  call.ranges = {{arena->data(), arena->data() + 100, 10, false}, {nullptr, nullptr, 0, true}};
  call.used = {3, 0, 10};
  call.sends = {{1, arena->data() + 8, 24}};
  call.receives = {{2, arena->data() + 64, 25}, {0, nullptr, 0}};
  const std::vector<std::byte> bytes = encode(call, 17, 3, arenas);
  RemoteCall remote = decode(bytes);
  CHECK(remote.sequence == 17);
  CHECK(remote.shared);
  CHECK(remote.call.label == call.label);
  CHECK(remote.call.used == call.used);
  const CollectiveCall* both[2]{&call, &remote.call};
  CHECK_FALSE(mismatch(both));
  resolve_sources(remote, getpid(), 3, arenas);
  arena->data()[9] = std::byte{77};
  CHECK(static_cast<const std::byte*>(remote.call.sends[0].data)[1] == std::byte{77});
  for (size_t length = 0; length < bytes.size(); ++length) {
    CHECK_THROWS_AS(decode(std::span(bytes).first(length)), core::CommError);
  }
}

TEST_CASE("a ring takes frames in flight, refuses more, and keeps their order") {
  ZRT_ONLY_ON_CPU();
  Segment segment(2);
  const auto out = segment.channel(0, 1), in = segment.channel(1, 0);
  uint8_t sent = 0, received = 0;
  for (int turn = 0; turn < 50; ++turn) {
    while (out->send(FrameKind::data, std::as_bytes(std::span(&sent, 1)))) ++sent;
    CHECK(sent - received == static_cast<int>(frames_in_flight));
    for (int i = 0; i <= turn % 4; ++i) {
      const auto frame = in->receive();
      REQUIRE(frame);
      CHECK(frame->bytes[0] == std::byte{received});
      in->pop();
      ++received;
    }
  }
}

TEST_CASE("the first reason of an abort stays, and another process's last calls can be read") {
  ZRT_ONLY_ON_CPU();
  Segment segment(3);
  CHECK(segment.reason().empty());
  segment.abort("the disk is full");
  segment.abort("something else");
  CHECK(segment.reason() == "the disk is full");
  CHECK(segment.claim());
  CHECK_FALSE(segment.claim());
  for (uint64_t i = 1; i <= 11; ++i) {
    segment.keep_record(
        2, {i, CollectiveKind::all_gather, fmt::format("gather {}", i) + std::string(100, 'x'), 5, i < 11, 0, 1});
  }
  const auto records = segment.records(2);
  REQUIRE(records.size() == 8);
  CHECK(records.front().sequence == 4);
  CHECK(records.back().label.starts_with("gather 11xxx"));
  CHECK_FALSE(records.back().finished);
  CHECK(segment.records(1).empty());
}

// Holds a rank up in the middle of a call, before it tells one peer that the first phase is done.
struct StallingChannel final : WrappedChannel {
  std::atomic<bool>* go_on = nullptr;
  bool send(FrameKind kind, std::span<const std::byte> bytes) override {
    while (kind == FrameKind::token && !*go_on) std::this_thread::sleep_for(5ms);
    return channel->send(kind, bytes);
  }
};

TEST_CASE("a rank that stops in the middle of a call is named, not those that wait for it") {
  ZRT_ONLY_ON_CPU();
  std::atomic<bool> go_on{false};
  std::atomic<int> failed{0};
  Group group = make_process_group({0, 0, 0}, 60s, [&](Membership& membership) {
    // Rank 0, which waits for rank 1 and rank 2, is the first to lose patience; rank 1 waits for rank 2 only.
    if (membership.rank == 0) membership.timeout = 4s;
    if (membership.rank != 2) return;
    auto stalling = std::make_unique<StallingChannel>();
    stalling->channel = std::move(membership.peers[1].channel);
    stalling->go_on = &go_on;
    membership.peers[1].channel = std::move(stalling);
  });
  std::vector<std::unique_ptr<core::Arena>> arenas;
  for (int r = 0; r < 3; ++r) arenas.push_back(test_arenas().make(core::Tier::device, 4096));
  const auto errors = run_catching(group, [&](Communicator& c) {
    auto* data = reinterpret_cast<float*>(arenas[static_cast<size_t>(c.rank())]->data());
    if (c.rank() == 0) await_call(*group[1]);  // its time-out finds rank 1 waiting
    try {
      c.all_reduce(data, 100, DType::f32, "sum");
    } catch (...) {
      if (++failed == 2) go_on = true;  // else the last token could still come in time for rank 1
      throw;
    }
  });
  for (const std::string& error : errors) {
    INFO(error);
    CHECK(error.find("of rank 0) timed out after 4000 ms; missing ranks: 2; waiting ranks: 0, 1.") !=
          std::string::npos);
  }
}

TEST_CASE("ranks on several machines learn a rank's failure and its reason") {
  ZRT_ONLY_ON_CPU();
  Group group = make_process_group({0, 1, 1, 2}, 60s);
  const auto errors = run_catching(group, [](Communicator& c) {
    std::vector<float> data(200000, 1.0f);
    for (int i = 0; i < 3; ++i) {
      if (c.rank() == 2 && i == 2) {
        c.abort("rank 2 lost its disk");
        throw std::runtime_error("rank 2 lost its disk");
      }
      c.all_reduce(data.data(), 200000, DType::f32, "sum");
    }
  });
  for (const std::string& error : errors) CHECK(error == "rank 2 lost its disk");
}

TEST_CASE("a rank that comes too late to another machine's call learns why it ended, not that its own differs") {
  ZRT_ONLY_ON_CPU();
  std::atomic<bool> gave_up{false};
  // When it comes, the other's call lies in the channel and the abort behind it.
  Group group = make_process_group({0, 1}, 300ms);
  const auto errors = run_catching(group, [&](Communicator& c) {
    if (c.rank() == 0) {
      float x = 1;
      try {
        c.all_reduce(&x, 1, DType::f32, "sum loss");
      } catch (...) {
        gave_up = true;
        throw;
      }
    }
    while (!gave_up) std::this_thread::sleep_for(5ms);
    c.barrier("too late");
  });
  for (const std::string& error : errors) {
    INFO(error);
    CHECK(error.find("missing ranks: 1; waiting ranks: 0.") != std::string::npos);
  }
}

}  // namespace
}  // namespace zrt::comm::process_group_test

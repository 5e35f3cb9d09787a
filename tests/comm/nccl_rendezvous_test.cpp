// What zrt asks of NCCL, with a stand-in for it that connects threads through host memory: no GPU is needed.
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "catch.h"
#include "comm/nccl/rendezvous.h"
#include "comm/nccl/rounds.h"
#include "core/error.h"
#include "ranks.h"
#include "values.h"

// Messages on their way, by purpose, sender and receiver.
struct Post {
  using Key = std::tuple<int, int, int>;
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<Key, std::deque<std::vector<std::byte>>> messages;
  int size = 0, aborted = 0, destroyed = 0;
  ncclResult_t trouble = ncclSuccess;
  // A vote is under way, and no message sent, for so many questions to come.
  int slow_votes = 0;
  std::atomic<int> under_way = 0;
};

// NCCL leaves this type to whoever implements it.
struct ncclComm {
  Post* post;
  int rank;
};

namespace zrt::comm::nccl_rendezvous_test {
namespace {

using namespace std::chrono_literals;
enum Purpose { message, gather, cast, vote };

// Calls between group_start and group_end: all that they send goes out before any waits for what it receives.
thread_local int depth = 0;
thread_local std::vector<std::function<ncclResult_t()>> waits;

void put(ncclComm_t c, int purpose, int to, const void* data, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(c->post->mutex);
  c->post->messages[{purpose, c->rank, to}].emplace_back(begin, begin + bytes);
  c->post->arrived.notify_all();
}

// What comes must have the size that is asked for.
ncclResult_t take(ncclComm_t c, int purpose, int from, void* data, size_t bytes) {
  const auto wait = [=] {
    std::unique_lock lock(c->post->mutex);
    auto& queue = c->post->messages[{purpose, from, c->rank}];
    if (!c->post->arrived.wait_for(lock, 300s, [&] { return !queue.empty(); })) return ncclSystemError;
    if (queue.front().size() != bytes) return ncclInvalidArgument;
    std::memcpy(data, queue.front().data(), bytes);
    queue.pop_front();
    return ncclSuccess;
  };
  if (depth == 0) return wait();
  waits.emplace_back(wait);
  return ncclSuccess;
}

ncclResult_t group_start() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t group_end() {
  if (--depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (const auto& wait : waits) {
    if (result == ncclSuccess) result = wait();
  }
  waits.clear();
  return result;
}
ncclResult_t send(const void* data, size_t count, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t) {
  put(c, message, peer, data, count);
  return ncclSuccess;
}
ncclResult_t receive(void* data, size_t count, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t) {
  return take(c, message, peer, data, count);
}
ncclResult_t all_gather(const void* source, void* target, size_t count, ncclDataType_t, ncclComm_t c, cudaStream_t) {
  ncclResult_t result = ncclSuccess;
  for (int r = 0; r < c->post->size; ++r) put(c, gather, r, source, count);
  for (int r = 0; r < c->post->size && result == ncclSuccess; ++r) {
    result = take(c, gather, r, static_cast<std::byte*>(target) + static_cast<size_t>(r) * count, count);
  }
  return result;
}
ncclResult_t broadcast(const void* source, void* target, size_t count, ncclDataType_t, int root, ncclComm_t c,
                       cudaStream_t) {
  for (int r = 0; c->rank == root && r < c->post->size; ++r) put(c, cast, r, source, count);
  return take(c, cast, root, target, count);
}
// Of one byte, for barriers; the result does not matter.
ncclResult_t all_reduce(const void* source, void*, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t c,
                        cudaStream_t) {
  if (c->post->slow_votes > 0) {
    c->post->under_way = c->post->slow_votes;
    return ncclInProgress;
  }
  std::byte other{};
  ncclResult_t result = ncclSuccess;
  for (int r = 0; r < c->post->size; ++r) put(c, vote, r, source, count);
  for (int r = 0; r < c->post->size && result == ncclSuccess; ++r) result = take(c, vote, r, &other, count);
  return result;
}

const NcclLibrary& stand_in() {
  static const NcclLibrary library{
      .get_unique_id = nullptr,
      .init_rank = nullptr,
      .finalize = [](ncclComm_t) { return ncclSuccess; },
      .destroy =
          [](ncclComm_t c) {
            ++c->post->destroyed;
            return ncclSuccess;
          },
      .abort =
          [](ncclComm_t c) {
            ++c->post->aborted;
            return ncclSuccess;
          },
      .async_error =
          [](ncclComm_t c, ncclResult_t* error) {
            *error = c->post->under_way > 0 ? ncclInProgress : c->post->trouble;
            if (c->post->under_way > 0) --c->post->under_way;
            return ncclSuccess;
          },
      .error_string = [](ncclResult_t code) { return code == ncclRemoteError ? "a peer is gone" : "an error"; },
      .group_start = group_start,
      .group_end = group_end,
      .send = send,
      .receive = receive,
      .all_gather = all_gather,
      .broadcast = broadcast,
      .all_reduce = all_reduce,
      .stream = [] { return cudaStream_t{}; }};
  return library;
}

// The hosts of ranks that take turns on two hosts.
std::vector<int> alternating(int size) {
  std::vector<int> hosts(static_cast<size_t>(size));
  for (size_t r = 0; r < hosts.size(); ++r) hosts[r] = static_cast<int>(r % 2);
  return hosts;
}

// A group over the stand-in and what it needs.
struct StandInGroup {
  Post post;
  std::vector<ncclComm> ends;
  std::vector<std::vector<std::byte>> staging;
  Group group;
  StandInGroup(int size, size_t staging_for_each) : StandInGroup(alternating(size), staging_for_each) {}
  StandInGroup(const std::vector<int>& hosts, size_t staging_for_each, std::optional<bool> by_line = {})
      : staging(hosts.size()) {
    const int size = static_cast<int>(hosts.size());
    post.size = size;
    for (int r = 0; r < size; ++r) ends.push_back({&post, r});
    for (int r = 0; r < size; ++r) {
      auto& own = staging[static_cast<size_t>(r)];
      own.resize(staging_for_each * static_cast<size_t>(size - 1));
      group.push_back(make_communicator(
          std::make_shared<NcclRendezvous>(stand_in(), &ends[static_cast<size_t>(r)],
                                           NcclSeat{"dp", r, hosts, own.data(), own.size(), 60s, by_line}),
          r));
    }
  }
};

// One call of every kind, and some of several ranges; each rank's buffers afterwards.
std::vector<Bytes> results(Group& group, DType type) {
  const int size = static_cast<int>(group.size());
  std::vector<Bytes> all(group.size());
  run_ranks(group, [&](Communicator& c) {
    const int64_t shard = 301, count = shard * size + 5;
    Bytes a = make_values(count, type, c.rank(), 3), b = make_values(count, type, c.rank(), 4);
    std::vector<float> sums(static_cast<size_t>(shard), 0.25f);
    const size_t element = core::dtype_size(type);
    const auto keep = [&] {
      Bytes& out = all[static_cast<size_t>(c.rank())];
      for (const Bytes* part : {&a, &b}) out.insert(out.end(), part->begin(), part->end());
      const auto* begin = reinterpret_cast<const std::byte*>(sums.data());
      out.insert(out.end(), begin, begin + sums.size() * sizeof(float));
    };
    c.all_reduce(a.data(), count, type, "sum");
    keep();
    const ReduceRange one{b.data(), sums.data(), shard, true};
    c.reduce_scatter({&one, 1}, type, DType::f32, "reduce");
    keep();
    const ReduceRange several[3]{
        {a.data(), b.data(), 200, false},
        {nullptr, nullptr, 0, false},
        {a.data() + 200 * static_cast<size_t>(size) * element, b.data() + 200 * element, 101, false}};
    c.reduce_scatter(several, type, type, "reduce h.0");
    keep();
    std::byte* own = a.data() + static_cast<size_t>(c.rank()) * 100 * element;
    const GatherRange gathers[2]{{own, a.data(), 100},
                                 {a.data() + 100 * static_cast<size_t>(size) * element, b.data(), 33}};
    c.all_gather(gathers, type, "gather");
    keep();
    c.all_to_all(a.data(), b.data(), 77, type, "tokens");
    keep();
    c.broadcast(b.data(), count, type, size - 1, "seed");
    keep();
    const int next = (c.rank() + 1) % size, previous = (c.rank() + size - 1) % size;
    const Message sends[3]{{next, a.data(), 100}, {c.rank(), a.data() + 100, 9}, {next, nullptr, 0}};
    const Message receives[3]{{previous, b.data(), 100}, {c.rank(), b.data() + 200, 9}, {previous, nullptr, 0}};
    c.send_recv(sends, receives, "edge");
    c.barrier("end");
    keep();
  });
  return all;
}

TEST_CASE(
    "collectives over NCCL give the bits of those between threads and the counts of processes, however little is "
    "staged") {
  ZRT_ONLY_ON_CPU();
  const int size = GENERATE(1, 2, 3, 5);
  const size_t staging = GENERATE(16, 400, 1 << 16);
  for (DType type : float_types()) {
    StandInGroup nccl(size, staging);
    Group threads = make_thread_group("dp", size, 60s), processes = make_process_group(alternating(size), 60s);
    CHECK((results(nccl.group, type) == results(threads, type)));  // bytes that no message shall list
    results(processes, type);
    for (int r = 0; r < size; ++r) {
      const Counters got = nccl.group[static_cast<size_t>(r)]->counters();
      const Counters expected = processes[static_cast<size_t>(r)]->counters();
      CHECK(std::memcmp(&got, &expected, sizeof got) == 0);
    }
    for (const auto& [key, queue] : nccl.post.messages) CHECK(queue.empty());
    nccl.group.clear();
    CHECK(nccl.post.destroyed == size);
  }
}

TEST_CASE(
    "sums along a line of hosts have the bits of those between threads, and closed forms of bytes between hosts") {
  ZRT_ONLY_ON_CPU();
  struct Hosts {
    std::vector<int> of;
    int hosts, each;
  };
  const Hosts hosts = GENERATE(Hosts{{0, 0, 1, 1}, 2, 2}, Hosts{{0, 0, 0, 1, 1, 1}, 2, 3},
                               Hosts{{7, 7, 3, 3, 5, 5, 4, 4}, 4, 2}, Hosts{{0, 0, 0, 1, 1, 1, 2, 2, 2}, 3, 3});
  const size_t staging = GENERATE(64, 400, 1 << 16);
  const int size = static_cast<int>(hosts.of.size());
  CAPTURE(hosts.hosts, hosts.each, staging);
  for (DType type : float_types()) {
    StandInGroup nccl(hosts.of, staging, true);
    Group threads = make_thread_group("dp", size, 60s);
    CHECK((results(nccl.group, type) == results(threads, type)));  // bytes that no message shall list
    for (const auto& [key, queue] : nccl.post.messages) CHECK(queue.empty());
    for (int r = 0; r < size; ++r) {
      Communicator& c = *nccl.group[static_cast<size_t>(r)];
      const auto before = c.counters().bytes_between_hosts[static_cast<size_t>(OpKind::reduce_scatter)];
      const Counters flat = threads[static_cast<size_t>(r)]->counters(), line = c.counters();
      CHECK(std::equal(std::begin(flat.bytes), std::end(flat.bytes), std::begin(line.bytes)));
      // The two calls of `results`: 301 elements to fp32, and as many to the type itself.
      const int host = r / hosts.each;
      const uint64_t partials = host > 0 ? 2u * 301u * 4u * static_cast<uint64_t>(hosts.hosts) : 0;
      const uint64_t sums = host < hosts.hosts - 1 ? 301 * (4 + core::dtype_size(type)) : 0;
      CHECK(before == partials + sums);
    }
  }
}

TEST_CASE("sums take the line where hosts hold equally many ranks in a row and it moves less, else an all-to-all") {
  CHECK_FALSE(host_line(std::vector{0, 0, 0}));
  CHECK_FALSE(host_line(std::vector{0, 1, 2}));
  CHECK_FALSE(host_line(std::vector{0, 1, 0, 1}));
  CHECK_FALSE(host_line(std::vector{0, 0, 1, 1, 1}));
  CHECK_FALSE(host_line(std::vector{0, 0, 1, 1, 0, 0}));
  CHECK_FALSE(host_line(std::vector{0, 0, 1, 2}));
  const auto line = host_line(std::vector{4, 4, 2, 2, 9, 9});
  REQUIRE(line);
  CHECK(line->hosts == 3);
  CHECK(line->per_host == 2);
  // 15 MiB of staging for 16 ranks, in rounds of a column's two ranks, each of 15 ÷ 10 or 15 ÷ 13 MiB a contribution.
  const HostLine dgx{2, 8};
  const uint64_t mib = 1 << 20, staging = 15 * mib, own = 48 * mib;
  const auto along = dgx.along(16 * own / 4, DType::f32, DType::f32, staging),
             direct = dgx.all_to_all(16 * own / 4, DType::f32, staging);
  CHECK(along.ticks == 2 * 32 + 2);
  CHECK(along.bytes_between == 2 * own);
  CHECK(along.bytes_inside == 2 * 7 * own * 65 / 64);
  CHECK(direct.ticks == 48);
  CHECK(direct.bytes_between == 8 * own);
  CHECK(direct.bytes_inside == 7 * own);
  // A rank between the first and the last host receives its result beside three hosts' partials, in a round more than
  // they are.
  const auto three = HostLine{3, 8}.along(24 * mib / 4, DType::f32, DType::f32, 23 * mib);
  CHECK(three.ticks == 6);
  CHECK(three.bytes_between == 3 * mib * 4 / 3 + mib);
  const auto pays = [&](const HostLine& hosts, uint64_t elements, DType from, DType to) {
    return hosts.pays(elements * static_cast<uint64_t>(hosts.size()), from, to,
                      static_cast<uint64_t>(hosts.size() - 1) * mib);
  };
  const uint64_t many = 16 * mib;  // of each rank
  CHECK(pays(dgx, many, DType::bf16, DType::bf16));
  CHECK(pays({2, 5}, many, DType::bf16, DType::f32));
  CHECK_FALSE(pays({2, 4}, many, DType::bf16, DType::bf16));
  CHECK(pays({2, 4}, many, DType::f32, DType::f32));
  CHECK(pays({2, 3}, many, DType::f32, DType::f32));
  CHECK_FALSE(pays({2, 2}, many, DType::f32, DType::f32));
  // Four ticks instead of one: three times 512 KiB must be saved, 8 of 16 bytes for each of a rank's elements.
  CHECK(pays(dgx, 192 << 10, DType::bf16, DType::bf16));
  CHECK_FALSE(pays(dgx, (192 << 10) - 1, DType::bf16, DType::bf16));
  // No kernel sums 264 contributions at once.
  CHECK(pays({33, 8}, 1, DType::bf16, DType::bf16));
  CHECK_FALSE(pays({32, 8}, 1, DType::bf16, DType::bf16));
  CHECK_FALSE(dgx.pays(many, DType::f32, DType::f32, 64));
  CHECK(part_bytes({2, 4}, 96, 4) == 16);
  CHECK(part_bytes({2, 4}, 95, 4) == 0);
  CHECK(part_bytes({2, 4}, 144, 2) == 16);
}

TEST_CASE("wrong arguments, and an error that NCCL met meanwhile, end a rank's end of the group") {
  ZRT_ONLY_ON_CPU();
  StandInGroup nccl(2, 64);
  float x[4] = {};
  CHECK_THROWS_WITH(nccl.group[0]->all_reduce(x, -4, DType::f32, "sum"), Catch::Contains("a count of -4"));
  CHECK(nccl.post.aborted == 1);
  CHECK_THROWS_WITH(nccl.group[0]->barrier("later"), Catch::Contains("a count of -4"));
  nccl.post.trouble = ncclRemoteError;
  CHECK_THROWS_WITH(nccl.group[1]->barrier("end"),
                    Catch::Contains("barrier \"end\" failed on rank 1") && Catch::Contains("a peer is gone"));
  CHECK(nccl.post.aborted == 2);
  nccl.group.clear();
  CHECK(nccl.post.destroyed == 0);
}

TEST_CASE("a rank waits while NCCL connects it with others, until that is done, the group is ended or time is up") {
  ZRT_ONLY_ON_CPU();
  StandInGroup nccl(2, 64);
  nccl.post.slow_votes = 3;
  nccl.group[0]->barrier("start");
  CHECK(nccl.post.under_way == 0);
  CHECK_NOTHROW(nccl.group[0]->require_alive());

  nccl.post.slow_votes = 40'000;  // some twenty seconds
  std::thread other([&] {
    while (nccl.post.under_way == 0) std::this_thread::yield();
    nccl.group[0]->abort("rank 1 lost its disk");
  });
  CHECK_THROWS_WITH(nccl.group[0]->barrier("middle"), Catch::Contains("rank 1 lost its disk"));
  other.join();
  CHECK(nccl.post.aborted == 1);
  CHECK_THROWS_WITH(nccl.group[0]->require_alive(), Catch::Contains("rank 1 lost its disk"));

  CHECK(nccl.post.under_way > 0);

  nccl.post.under_way = 0;
  std::vector<std::byte> staging(16);
  const auto hasty =
      make_communicator(std::make_shared<NcclRendezvous>(
                            stand_in(), &nccl.ends[1], NcclSeat{"dp", 1, {0, 0}, staging.data(), staging.size(), 50ms}),
                        1);
  CHECK_THROWS_WITH(hasty->barrier("end"), Catch::Contains("timed out after 50 ms: NCCL has not queued the call"));
  CHECK(nccl.post.aborted == 2);
}

TEST_CASE("a watch learns of an error that NCCL met, with the group, the rank and its last calls") {
  ZRT_ONLY_ON_CPU();
  Post post;
  post.size = 2;
  ncclComm end{&post, 1};
  std::vector<std::byte> staging(16);
  NcclRendezvous calls(stand_in(), &end, NcclSeat{"dp", 1, {0, 0}, staging.data(), staging.size()});
  CHECK(calls.trouble().empty());
  post.under_way = 1;
  CHECK(calls.trouble().empty());
  post.trouble = ncclRemoteError;
  CHECK_THAT(calls.trouble(), Catch::Contains("group dp of 2 ranks: rank 1 cannot go on: NCCL reports \"a peer is "
                                              "gone\""));
  calls.abort("over");
  CHECK(calls.trouble().empty());
  CHECK(calls.reason() == "over");
}

namespace {
struct Moment final : core::Event::State {
  bool reached = false;
  bool done() const override { return reached; }
  void wait() const override {}
  double seconds_since(const State&) const override { return 0; }
  double seconds(const core::Anchor&) const override { return 0; }
};
}  // namespace

TEST_CASE("a call stands still once its GPU has been in it for the limit, however long it waited before") {
  QueuedCalls calls;
  const QueuedCalls::Clock::time_point start{};
  const auto begin = std::make_shared<Moment>(), end = std::make_shared<Moment>();
  const auto later = std::make_shared<Moment>();
  calls.add("sum", core::Event(begin), core::Event(end));
  calls.add("gather", core::Event(later), core::Event(later));
  const auto look = [&](std::chrono::seconds at) { return calls.standing_still(start + at, 10s).value_or(""); };
  CHECK(look(0s).empty());
  CHECK(look(100s).empty());
  begin->reached = true;
  for (auto at = 101s; at < 111s; at += 1s) CHECK(look(at).empty());
  CHECK(look(111s) == "sum");
  end->reached = true;
  CHECK(look(112s).empty());
  later->reached = true;
  CHECK(look(1000s).empty());
}

TEST_CASE("time in which nobody could look, as while a process is stopped, counts two seconds for a call") {
  QueuedCalls calls;
  const auto begin = std::make_shared<Moment>(), end = std::make_shared<Moment>();
  begin->reached = true;
  calls.add("sum", core::Event(begin), core::Event(end));
  const auto look = [&](std::chrono::seconds at) {
    return calls.standing_still(QueuedCalls::Clock::time_point(at), 10s).value_or("");
  };
  for (const auto at : {0s, 1000s, 2000s, 3000s, 4000s}) CHECK(look(at).empty());
  CHECK(look(5000s) == "sum");
}

TEST_CASE("a group of one rank also serves the host, whose threads have no stream") {
  NcclLibrary library = stand_in();
  library.stream = []() -> cudaStream_t { throw core::Error("this thread has no stream"); };
  Post post;
  post.size = 1;
  ncclComm end{&post, 0};
  const auto c = make_communicator(std::make_shared<NcclRendezvous>(library, &end, NcclSeat{"save", 0, {0}}), 0);
  const std::vector<float> from{1, 2, 3};
  std::vector<float> to(3), sum{4, 5};
  const GatherRange range{from.data(), to.data(), 3};
  c->all_gather({&range, 1}, DType::f32, "sizes");
  CHECK(to == from);
  c->all_reduce(sum.data(), 2, DType::f32, "sum");
  CHECK(sum == std::vector<float>{4, 5});
  c->broadcast(sum.data(), 2, DType::f32, 0, "sum");
  c->barrier("end");
}

TEST_CASE("rounds cover every element of all sums once, in order, and each fits") {
  std::vector<Piece> pieces;
  for (int64_t count : {5, 1000, 3, 64, 1}) pieces.push_back({Piece::everyone, 0, 0, nullptr, count, false});
  for (const size_t element : {2u, 4u}) {
    for (const uint64_t bytes : {uint64_t{16}, uint64_t{208}, uint64_t{1} << 20, UINT64_MAX}) {
      std::vector<int64_t> next(pieces.size(), 0);
      const std::vector<Round> rounds = rounds_of(pieces, element, bytes);
      size_t current = 0;
      for (const Round& round : rounds) {
        uint64_t free = 0;  // first byte behind the chunks so far
        for (const Chunk& chunk : round) {
          CHECK(chunk.piece >= current);
          current = chunk.piece;
          CHECK(chunk.begin == next[chunk.piece]);
          CHECK(chunk.count > 0);
          next[chunk.piece] += chunk.count;
          CHECK(chunk.offset % 16 == 0);
          CHECK(chunk.offset >= free);
          free = chunk.offset + static_cast<uint64_t>(chunk.count) * element;
          CHECK(free <= bytes);
        }
      }
      for (size_t i = 0; i < pieces.size(); ++i) CHECK(next[i] == pieces[i].count);
      if (bytes > 1000000) CHECK(rounds.size() == 1);
    }
  }
}

}  // namespace
}  // namespace zrt::comm::nccl_rendezvous_test

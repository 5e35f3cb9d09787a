// A stand-in for NCCL checks what zrt asks of it: no GPU is needed.
#include <cstring>

#include "catch.h"
#include "comm/nccl/rounds.h"
#include "core/error.h"
#include "nccl_stand_in.h"
#include "ranks.h"
#include "values.h"

namespace zrt::comm::nccl_rendezvous_test {
namespace {

using namespace nccl_stand_in;

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

TEST_CASE("over NCCL an all_to_all moves and counts whole blocks, whatever is used of them, and refuses wrong lists") {
  ZRT_ONLY_ON_CPU();
  const int size = GENERATE(1, 2, 3);
  StandInGroup nccl(size, 64);
  run_ranks(nccl.group, [&](Communicator& c) {
    std::vector<int32_t> source, target(static_cast<size_t>(5 * size), -1), expected;
    std::vector<int64_t> used;
    for (int p = 0; p < size; ++p) {
      source.insert(source.end(), 5, 100 * c.rank() + p);
      expected.insert(expected.end(), 5, 100 * p + c.rank());
      used.push_back((c.rank() + 2 * p) % 6);
    }
    c.all_to_all(source.data(), target.data(), 5, DType::i32, "tokens", used);
    if (target != expected) throw std::runtime_error("a wrong block");
    const uint64_t elements = c.counters().elements[static_cast<size_t>(CollectiveKind::all_to_all)];
    if (elements != 5 * static_cast<uint64_t>(size - 1)) throw std::runtime_error("a wrong count");
  });
  const auto errors = run_catching(nccl.group, [&](Communicator& c) {
    std::vector<int32_t> source(static_cast<size_t>(5 * size)), target = source;
    const std::vector<int64_t> used(static_cast<size_t>(size), 6);
    c.all_to_all(source.data(), target.data(), 5, DType::i32, "tokens", used);
  });
  const std::string message = "6 used elements in the block from rank 0";
  for (const std::string& error : errors) CHECK_THAT(error, Catch::Contains(message));
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
      const auto before = c.counters().bytes_between_hosts[static_cast<size_t>(CollectiveKind::reduce_scatter)];
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
  std::vector<Portion> portions;
  for (int64_t count : {5, 1000, 3, 64, 1}) portions.push_back({Portion::everyone, 0, 0, nullptr, count, false});
  for (const size_t element : {2u, 4u}) {
    for (const uint64_t bytes : {uint64_t{16}, uint64_t{208}, uint64_t{1} << 20, UINT64_MAX}) {
      std::vector<int64_t> next(portions.size(), 0);
      const std::vector<Round> rounds = rounds_of(portions, element, bytes);
      size_t current = 0;
      for (const Round& round : rounds) {
        uint64_t free = 0;  // first byte behind the chunks so far
        for (const Chunk& chunk : round) {
          CHECK(chunk.portion >= current);
          current = chunk.portion;
          CHECK(chunk.begin == next[chunk.portion]);
          CHECK(chunk.count > 0);
          next[chunk.portion] += chunk.count;
          CHECK(chunk.offset % 16 == 0);
          CHECK(chunk.offset >= free);
          free = chunk.offset + static_cast<uint64_t>(chunk.count) * element;
          CHECK(free <= bytes);
        }
      }
      for (size_t i = 0; i < portions.size(); ++i) CHECK(next[i] == portions[i].count);
      if (bytes > 1000000) CHECK(rounds.size() == 1);
    }
  }
}

}  // namespace
}  // namespace zrt::comm::nccl_rendezvous_test

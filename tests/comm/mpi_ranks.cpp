// One rank of a run under mpirun, for mpi_test.cpp: `mpi_ranks WHAT`.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>

#include "comm/launch.h"
#include "core/error.h"
#include "values.h"

namespace zrt::comm {
namespace {

using std::chrono::milliseconds;

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("wrong: " + what);
}

// All kinds of calls on one group, in memory of an arena or of the heap, against sums computed here from values that
// no other group has.
void check_calls(Communicator& c, std::byte* a, std::byte* b, int turns, int number = 0) {
  const int size = c.size(), rank = c.rank();
  for (int turn = 0; turn < turns; ++turn) {
    const auto salt = static_cast<uint32_t>(1000 * number + turn);
    const int64_t shard = turn % 3 == 0 ? 40000 : 100 + turn;
    const DType type = turn % 2 == 0 ? DType::f32 : DType::bf16;
    std::vector<Bytes> sources;
    sources.reserve(static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) sources.push_back(make_values(shard * size, type, r, salt));
    auto fill = [&] { std::memcpy(a, sources[static_cast<size_t>(rank)].data(), sources[0].size()); };
    auto sums = [&](const std::byte* got, DType to, int64_t begin, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        std::byte expected[4];
        save(expected, 0, to, ordered_sum(sources, begin + i, type));
        const size_t bytes = core::dtype_size(to);
        if (std::memcmp(expected, got + static_cast<size_t>(i) * bytes, bytes) != 0) return false;
      }
      return true;
    };
    fill();
    const ReduceRange reduce_range{a, b, shard, false};
    c.reduce_scatter({&reduce_range, 1}, type, DType::f32, "reduce");
    require(sums(b, DType::f32, rank * shard, shard), "reduce_scatter");
    c.all_reduce(a, shard * size, type, "sum");
    require(sums(a, type, 0, shard * size), "all_reduce");
    fill();
    const size_t bytes = static_cast<size_t>(shard) * core::dtype_size(type);
    const GatherRange gather_range{a, b, shard};
    c.all_gather({&gather_range, 1}, type, "gather");
    for (int r = 0; r < size; ++r) {
      require(std::memcmp(b + static_cast<size_t>(r) * bytes, sources[static_cast<size_t>(r)].data(), bytes) == 0,
              "all_gather");
    }
    std::vector<int64_t> used;
    for (int r = 0; r < size; ++r) used.push_back((shard * (r + 1) / size + rank) % (shard + 1));
    c.all_to_all(a, b, shard, type, "tokens", used);
    for (int r = 0; r < size; ++r) {
      const std::byte *from = sources[static_cast<size_t>(r)].data(), *block = b + static_cast<size_t>(r) * bytes;
      const size_t arrived = static_cast<size_t>(used[static_cast<size_t>(r)]) * core::dtype_size(type);
      const bool rest = std::memcmp(block + arrived, from + arrived, bytes - arrived) == 0;  // what was gathered
      require(rest && std::memcmp(block, from + static_cast<size_t>(rank) * bytes, arrived) == 0, "all_to_all");
    }
    const Message send{(rank + 1) % size, a, bytes}, receive{(rank + size - 1) % size, b, bytes};
    c.send_recv({&send, 1}, {&receive, 1}, "edge");
    require(std::memcmp(b, sources[static_cast<size_t>(receive.peer)].data(), bytes) == 0, "send_recv");
    int32_t word = 100 * number + rank;
    c.broadcast(&word, 1, DType::i32, turn % size, "root");
    require(word == 100 * number + turn % size, "broadcast");
    c.barrier("turn");
  }
}

void collectives(Transport& transport) {
  constexpr size_t room = 1 << 21;
  auto dp = transport.make_group("dp", milliseconds(120000));
  auto save = transport.make_group("save", milliseconds(120000));
  const auto arena = transport.make_arena(transport.first_local(), core::Tier::device, 2 * room);
  std::vector<std::byte> heap(2 * room);
  std::string error;
  std::thread other([&] {
    try {
      check_calls(*save[0], heap.data(), heap.data() + room, 8);
    } catch (const std::exception& e) {
      error = e.what();
    }
  });
  check_calls(*dp[0], arena->data(), arena->data() + room, 12);
  other.join();
  require(error.empty(), error);
  const auto texts =
      transport.exchange(std::string(static_cast<size_t>(transport.first_local()), 'x'), milliseconds(120000));
  for (size_t r = 0; r < texts.size(); ++r) require(texts[r].size() == r, "exchange");
  if (transport.leads()) fmt::print("{} ranks agree, {} on this machine\n", transport.world(), transport.host_count());
}

// Neighbours in one group and their counterparts in another, both at once, and a group that has a rank by itself.
void subgroups(Transport& transport) {
  constexpr size_t room = 1 << 21;
  const int rank = transport.first_local();
  const Partition inner{{0, 1}, {2, 3}}, outer{{0, 2}, {1, 3}}, uneven{{3, 1, 0}, {2}};
  const auto arena = transport.make_arena(rank, core::Tier::device, 2 * room);
  std::vector<std::byte> heap(2 * room);
  auto in = transport.make_groups("dp.inner", inner, milliseconds(120000));
  auto out = transport.make_groups("dp.outer", outer, milliseconds(120000));
  auto number = [&](const Partition& partition) { return 1 + static_cast<int>(seat_of(partition, rank).group); };
  require(in[0]->group() == (rank < 2 ? "dp.inner[0-1]" : "dp.inner[2-3]"), in[0]->group());
  std::string error;
  std::thread other([&] {
    try {
      check_calls(*out[0], heap.data(), heap.data() + room, 4 * number(outer), number(outer));
    } catch (const std::exception& e) {
      error = e.what();
    }
  });
  check_calls(*in[0], arena->data(), arena->data() + room, 9 - number(inner), 10 * number(inner));
  other.join();
  require(error.empty(), error);
  auto some = transport.make_groups("uneven", uneven, milliseconds(120000));
  require(some[0]->rank() == seat_of(uneven, rank).rank, "the order of ranks");
  check_calls(*some[0], arena->data(), arena->data() + room, 5, 50 * number(uneven));
  if (transport.leads()) fmt::print("groups agree, {} ranks on this machine\n", transport.host_count());
}

// Rank 0 gives up in one group; ranks 2 and 3 learn it in theirs.
void siblings(Transport& transport) {
  auto group = transport.make_groups("dp.inner", {{0, 1}, {2, 3}}, milliseconds(120000));
  std::string reason;
  try {
    if (transport.first_local() == 0) group[0]->abort("rank 0 lost its disk");
    while (true) group[0]->barrier("turn");
  } catch (const core::CommError& error) {
    reason = error.what();
  }
  require(reason == "rank 0 lost its disk", reason);
  if (transport.leads()) fmt::print("all groups ended\n");
}

void run(const std::string& what, Transport& transport) {
  const int rank = transport.first_local();
  if (what == "collectives") return collectives(transport);
  if (what == "groups") return subgroups(transport);
  if (what == "siblings") return siblings(transport);
  if (what == "partition") {
    const Partition one{{0, 1}, {2, 3}}, two{{0, 2}, {1, 3}};
    transport.make_groups("dp", rank == 1 ? two : one, milliseconds(120000));
  }
  if (what == "unequal") {
    require_equal(transport, "the kernel table", rank == 1 ? "a" : "b", milliseconds(120000));
  }
  if (what == "unequal_key") {
    const std::string value = rank == 2 ? "3" : "2";
    require_equal(transport, "the configuration",
                  "{\"train_batch_size\":8,\"zero_optimization\":{\"stage\":" + value + ",\"overlap_comm\":true}}",
                  milliseconds(120000));
  }
  if (what == "early" && rank == 1) throw core::DataError("rank 1 cannot read its file");
  auto dp = transport.make_group("dp", milliseconds(what == "stop" || what == "late" ? 5000 : 120000));
  float x = 1;
  for (int i = 0; i < 1000; ++i) {
    if (i == 10 && rank == 1) {
      if (what == "mismatch") dp[0]->barrier("h.4");
      if (what == "stop") raise(SIGSTOP);
      if (what == "kill") raise(SIGKILL);
      if (what == "leave") _exit(0);
      if (what == "throw") {
        dp[0]->abort("rank 1 failed in 'update': its disk is full");
        throw core::DataError("its disk is full");
      }
      if (what == "late") transport.exchange("", milliseconds(120000));
    }
    dp[0]->all_reduce(&x, 1, DType::f32, fmt::format("sum {}", i));
  }
}

}  // namespace
}  // namespace zrt::comm

int main(int, char** argv) {
  const auto transport = zrt::comm::make_transport("", std::nullopt);
  try {
    zrt::comm::run(argv[1], *transport);
  } catch (const std::exception& error) {
    transport->fail(
        error, [&] { fmt::print(stderr, "error of rank {}: {}\n", transport->first_local(), error.what()); }, 3);
    throw;
  }
  return 0;
}

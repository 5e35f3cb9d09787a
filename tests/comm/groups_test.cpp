// Groups of some of the ranks: how a run is cut, and that groups work and end as they should. Ranks as processes are in
// mpi_test.cpp.
#include <fmt/format.h>

#include "catch.h"
#include "comm/transport.h"
#include "core/error.h"
#include "ranks.h"

namespace zrt::comm::groups_test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a group's name tells which ranks of the run are in it") {
  CHECK(group_name("dp", {0, 1, 2}, 3) == "dp");
  CHECK(group_name("dp", {0, 1, 2}, 4) == "dp[0-2]");
  CHECK(group_name("dp", {0, 2, 1}, 3) == "dp[0,2,1]");
  CHECK(group_name("dp.inner", {4, 5, 6, 7}, 8) == "dp.inner[4-7]");
  CHECK(group_name("dp.outer", {1, 5, 9}, 12) == "dp.outer[1,5,9]");
  CHECK(group_name("dp", {3}, 4) == "dp[3]");
  std::vector<int> far;
  for (int i = 0; i < 12; ++i) far.push_back(1 + 5 * i);
  CHECK(group_name("dp.outer", far, 60) == "dp.outer[1,6,…,56]");
  far.back() = 59;
  CHECK(group_name("dp", far, 60) == "dp[1,6,11,16,21,26,31,36,… 4 more]");
}

TEST_CASE("a partition that leaves a rank out, names one twice or a stranger is refused") {
  const auto transport = make_thread_transport(4);
  auto refused = [&](const Partition& partition, const std::string& part) {
    CHECK_THROWS_WITH(transport->make_groups("dp", partition, 1s), Catch::Contains(part));
  };
  refused({{0, 1}, {3}}, "rank 2 is in none of the groups dp");
  refused({{0, 1}, {1, 2, 3}}, "rank 1 is in 2 of the groups dp");
  refused({{0, 1}, {2, 4}}, "names rank 4; the ranks of this run are 0 to 3");
  refused({{0, 1}, {2, -1}}, "names rank -1");
  refused({{0, 1, 2, 3}, {}}, "has no ranks");
  CHECK_NOTHROW(transport->make_groups("dp", {{3, 1}, {0, 2}}, 1s));
}

// The sum over the ranks of a group of values that no other group has.
float sum_of(const std::vector<int>& ranks, int turn) {
  float sum = 0;
  for (int rank : ranks) sum += static_cast<float>(100 * rank + turn);
  return sum;
}

TEST_CASE("groups of two partitions work at the same time and each sums its own ranks") {
  constexpr int world = 6;
  const Partition inner{{0, 1, 2}, {3, 4, 5}}, outer{{0, 3}, {1, 4}, {2, 5}};
  const auto transport = make_thread_transport(world);
  Group in = transport->make_groups("dp.inner", inner, 60s), out = transport->make_groups("dp.outer", outer, 60s);
  REQUIRE(in.size() == world);
  CHECK(in[4]->group() == "dp.inner[3-5]");
  CHECK(in[4]->rank() == 1);
  CHECK(in[4]->size() == 3);
  CHECK(out[4]->group() == "dp.outer[1,4]");
  CHECK(out[4]->rank() == 1);
  CHECK(out[4]->size() == 2);
  // Each group goes at its own pace: the numbers of calls differ between groups of one partition.
  auto body = [](const Partition& partition, int lane) {
    return [&partition, lane](Communicator& c, int rank) {
      const Seat seat = seat_of(partition, rank);
      for (int turn = 0; turn < 200 + 50 * static_cast<int>(seat.group); ++turn) {
        test::Visible<float> x(1, static_cast<float>(100 * rank + turn + lane));
        c.all_reduce(x.data(), 1, DType::f32, fmt::format("sum {}", turn));
        test::settle();
        const auto& ranks = partition[seat.group];
        if (x[0] != sum_of(ranks, turn + lane)) throw std::runtime_error(fmt::format("rank {} got {}", rank, x[0]));
      }
    };
  };
  std::vector<std::thread> threads;
  std::vector<std::string> errors(2 * world);
  for (int rank = 0; rank < world; ++rank) {
    for (int lane = 0; lane < 2; ++lane) {
      threads.emplace_back([&, rank, lane] {
        const auto r = static_cast<size_t>(rank);
        try {
          const test::OnTestDevice here;
          lane == 0 ? body(inner, 0)(*in[r], rank) : body(outer, 7)(*out[r], rank);
        } catch (const std::exception& error) {
          errors[2 * r + static_cast<size_t>(lane)] = error.what();
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(in[0]->counters().calls[static_cast<size_t>(CollectiveKind::all_reduce)] == 200);
  CHECK(in[3]->counters().calls[static_cast<size_t>(CollectiveKind::all_reduce)] == 250);
}

TEST_CASE("what ends a group ends the others of its partition with the same reason") {
  const auto transport = make_thread_transport(4);
  Group groups = transport->make_groups("dp.inner", {{0, 1}, {2, 3}}, 24h);  // whoever is not woken hangs
  Group other = transport->make_groups("save", {{0, 1}, {2, 3}}, 60s);
  const auto errors = run_catching(groups, [&](Communicator& c) {
    if (&c == groups[0].get()) {
      await_call(*groups[1]);
      await_call(*groups[2]);
      c.abort("rank 0 lost its disk");
    }
    if (&c != groups[3].get()) c.barrier("end");  // rank 2 waits for rank 3
  });
  CHECK(errors == std::vector<std::string>{"rank 0 lost its disk", "rank 0 lost its disk", "rank 0 lost its disk", ""});
  run_ranks(other, [](Communicator& c) { c.barrier("of another partition"); });
}

TEST_CASE("a rank missing in a group is named by the group, whose name lists the ranks of the run") {
  const auto transport = make_thread_transport(4);
  Group groups = transport->make_groups("dp.inner", {{0, 1}, {2, 3}}, 200ms);
  const auto errors = run_catching(groups, [&](Communicator& c) {
    if (&c == groups[2].get()) c.barrier("h.3");
  });
  CHECK_THAT(errors[2], Catch::Contains("group dp.inner[2-3] of 2 ranks") && Catch::Contains("missing ranks: 1;") &&
                            Catch::Contains("lists the ranks of the run"));
}

}  // namespace
}  // namespace zrt::comm::groups_test

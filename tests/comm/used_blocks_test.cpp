// These tests give all_to_all lists that say how much of each block is used.
#include "catch.h"
#include "ranks.h"

namespace zrt::comm::used_blocks_test {
namespace {

using namespace std::chrono_literals;

using List = std::vector<int64_t>;  // by source rank
constexpr int32_t untouched = -1;

int32_t value(int from, int to, int64_t i) {
  return static_cast<int32_t>(1000000 * from + 100000 * to + i);
}

int64_t arrives(const List& used, int from, int64_t count) {
  return used.empty() ? count : used[static_cast<size_t>(from)];
}

// Makes one exchange in which rank r has lists[r]. Checks the values that arrive, the rest of the targets and the
// counts.
void check_exchange(Group& group, int64_t count, const std::vector<List>& lists) {
  const int size = static_cast<int>(group.size());
  std::vector<Counters> counted;
  for (const auto& member : group) counted.push_back(member->counters());
  run_ranks(group, [&](Communicator& c) {
    const List& used = lists[static_cast<size_t>(c.rank())];
    test::Visible<int32_t> source, target(static_cast<size_t>(count * size), untouched), expected = target;
    for (int to = 0; to < size; ++to) {
      for (int64_t i = 0; i < count; ++i) source.push_back(value(c.rank(), to, i));
    }
    for (int from = 0; from < size; ++from) {
      for (int64_t i = 0; i < arrives(used, from, count); ++i) {
        expected[static_cast<size_t>(from * count + i)] = value(from, c.rank(), i);
      }
    }
    c.all_to_all(source.data(), target.data(), count, DType::i32, "tokens", used);
    test::settle();
    if (target != expected) throw std::runtime_error("a wrong element, or one that was not to be touched");
  });
  for (int rank = 0; rank < size; ++rank) {
    const Communicator& member = *group[static_cast<size_t>(rank)];
    uint64_t elements = 0, elsewhere = 0;
    for (int from = 0; from < size; ++from) {
      if (from == rank) continue;
      const auto arrived = static_cast<uint64_t>(arrives(lists[static_cast<size_t>(rank)], from, count));
      elements += arrived;
      // Hosts alternate.
      elsewhere += group_under_test() == "hosts" && (from + rank) % 2 == 1 ? arrived : 0;
    }
    Counters more = member.counters();
    more -= counted[static_cast<size_t>(rank)];
    constexpr auto kind = static_cast<size_t>(CollectiveKind::all_to_all);
    INFO("rank " << rank << " of " << size);
    CHECK(more.calls[kind] == 1);
    CHECK(more.elements[kind] == elements);
    CHECK(more.bytes[kind] == 4 * elements);
    CHECK(more.bytes_between_hosts[kind] == 4 * elsewhere);
    CHECK(member.flight_records().back().bytes == 4 * elements);
  }
}

TEST_CASE("all_to_all moves and counts what is used of each block and leaves the rest of the target as it was") {
  const int size = GENERATE(1, 2, 3, 8);
  const int64_t count = GENERATE(1, 33, 40000);  // up to two frames
  CAPTURE(size, count);
  const auto ranks = static_cast<size_t>(size);
  Group group = make_group(size);
  std::vector<List> lists(ranks);
  const int64_t amounts[] = {count / 2, count, 0, count - 1, 1, count / 3};
  for (size_t reader = 0; reader < ranks; ++reader) {
    for (size_t from = 0; from < ranks; ++from) lists[reader].push_back(amounts[(3 * reader + from) % 6]);
  }
  check_exchange(group, count, lists);
  SECTION("ranks with a list and without one meet") {
    lists.back().clear();
    check_exchange(group, count, lists);
  }
  SECTION("a call without lists behind one with them moves whole blocks") {
    check_exchange(group, count, std::vector<List>(ranks));
  }
  SECTION("nothing of one rank is used") {
    for (List& used : lists) used.back() = 0;
    check_exchange(group, count, lists);
  }
  SECTION("nothing of any rank is used") {
    check_exchange(group, count, std::vector<List>(ranks, List(ranks, 0)));
  }
  SECTION("all of every block is used") {
    check_exchange(group, count, std::vector<List>(ranks, List(ranks, count)));
  }
  SECTION("blocks are empty") {
    check_exchange(group, 0, std::vector<List>(ranks, List(ranks, 0)));
  }
}

TEST_CASE("a wrong list of what is used, of one rank, ends the call of all ranks with the same message") {
  struct Wrong {
    List used;
    std::string message;
  };
  const std::string length = "legal are 3, one from each rank, or none for whole blocks",
                    range = "legal are 0 to 4, the elements of a block";
  const Wrong wrong = GENERATE_COPY(Wrong{{1}, "a list of used elements for 1 blocks; " + length},
                                    Wrong{{1, 2}, "a list of used elements for 2 blocks; " + length},
                                    Wrong{{1, 2, 3, 4}, "a list of used elements for 4 blocks; " + length},
                                    Wrong{{1, 5, 3}, "5 used elements in the block from rank 1; " + range},
                                    Wrong{{1, 2, -3}, "-3 used elements in the block from rank 2; " + range});
  Group group = make_group(3, 60s);
  const auto start = std::chrono::steady_clock::now();
  const auto errors = run_catching(group, [&](Communicator& c) {
    test::Visible<float> source(12, 1.0f), target(12, 0.0f);
    c.all_to_all(source.data(), target.data(), 4, DType::f32, "tokens", c.rank() == 1 ? wrong.used : List{4, 0, 4});
  });
  CHECK(std::chrono::steady_clock::now() - start < 30s);
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               Catch::Contains("group dp: rank 1 called all_to_all \"tokens\" of 4 elements per rank, fp32 with"));
    CHECK_THAT(error, Catch::Contains(wrong.message));
  }
}

}  // namespace
}  // namespace zrt::comm::used_blocks_test

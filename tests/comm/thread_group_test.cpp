#include "comm/thread_group.h"

#include <fmt/format.h>

#include <cmath>

#include "catch.h"
#include "core/hash.h"
#include "ranks.h"
#include "values.h"

namespace zrt::comm::thread_group_test {
namespace {

using Buffer = test::Visible<std::byte>;  // what collectives read and write

constexpr std::byte poison{0xA5};

// Every rank's values for one collective, `count` elements each.
std::vector<Bytes> all_values(int size, int64_t count, DType type, uint32_t salt) {
  std::vector<Bytes> values(static_cast<size_t>(size));
  for (int r = 0; r < size; ++r) values[static_cast<size_t>(r)] = make_values(count, type, r, salt);
  return values;
}

// Elements of `data` (from `begin`) that differ from the ordered sum rounded to `to`, plus `base`.
int64_t wrong_sums(const std::byte* data, DType to, const std::vector<Bytes>& sources, DType from, int64_t begin,
                   int64_t count, float base = 0, bool accumulate = false) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float sum = ordered_sum(sources, begin + i, from);
    alignas(float) std::byte expected[sizeof(float)];
    save(expected, 0, to, accumulate ? base + sum : sum);
    const size_t size = core::dtype_size(to);
    wrong += std::memcmp(expected, data + static_cast<size_t>(i) * size, size) != 0;
  }
  return wrong;
}

// The same sum in fp64, as a check on the reference itself.
double largest_error(const std::vector<Bytes>& sources, DType type, int64_t count) {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    double exact = 0;
    for (const Bytes& source : sources) exact += static_cast<double>(load(source.data(), i, type));
    largest = std::max(largest, std::abs(exact - static_cast<double>(ordered_sum(sources, i, type))));
  }
  return largest;
}

const std::vector<int64_t>& counts() {
  static const std::vector<int64_t> list{0, 1, 3, 17, 1000, 4099};
  return list;
}

TEST_CASE("all_reduce leaves the ordered sum in every rank's buffer") {
  const int size = GENERATE(1, 2, 3, 4, 8);
  Group group = make_group(size);
  for (DType type : float_types()) {
    for (int64_t count : counts()) {
      const std::vector<Bytes> sources = all_values(size, count, type, 1);
      CHECK(largest_error(sources, type, count) < 1e-5);
      std::vector<Buffer> data;
      data.reserve(sources.size());
      for (const Bytes& source : sources) data.push_back(test::visible(source));
      run_ranks(group,
                [&](Communicator& c) { c.all_reduce(data[static_cast<size_t>(c.rank())].data(), count, type, "sum"); });
      for (const Buffer& result : data) CHECK(wrong_sums(result.data(), type, sources, type, 0, count) == 0);
    }
  }
}

struct ReduceCase {
  DType from, to;
  bool in_place, accumulate;
};

void check_reduce_scatter(Group& group, const ReduceCase& reduce, const std::vector<int64_t>& shards) {
  const int size = static_cast<int>(group.size());
  std::vector<std::vector<Bytes>> sources;  // by range, then rank
  for (size_t k = 0; k < shards.size(); ++k) {
    sources.push_back(all_values(size, shards[k] * size, reduce.from, 10 + static_cast<uint32_t>(k)));
  }
  run_ranks(group, [&](Communicator& c) {
    const size_t me = static_cast<size_t>(c.rank());
    std::vector<Buffer> own, targets;
    std::vector<ReduceRange> ranges;
    for (size_t k = 0; k < shards.size(); ++k) {
      own.push_back(test::visible(sources[k][me]));
      // One element more than the shard: it must keep its value.
      targets.emplace_back(static_cast<size_t>(shards[k] + 1) * core::dtype_size(reduce.to), poison);
      for (int64_t i = 0; reduce.accumulate && i < shards[k]; ++i) save(targets.back().data(), i, reduce.to, 0.5f);
    }
    for (size_t k = 0; k < shards.size(); ++k) {
      const size_t offset = me * static_cast<size_t>(shards[k]) * core::dtype_size(reduce.from);
      void* target = reduce.in_place ? own[k].data() + offset : targets[k].data();
      ranges.push_back({own[k].data(), target, shards[k], reduce.accumulate});
    }
    c.reduce_scatter(ranges, reduce.from, reduce.to, "reduce h.0");
    test::settle();
    for (size_t k = 0; k < shards.size(); ++k) {
      const int64_t begin = shards[k] * c.rank();
      Buffer result = targets[k];
      const size_t bytes = static_cast<size_t>(shards[k]) * core::dtype_size(reduce.to);
      if (reduce.in_place && bytes > 0) std::memcpy(result.data(), ranges[k].target, bytes);
      if (wrong_sums(result.data(), reduce.to, sources[k], reduce.from, begin, shards[k], 0.5f, reduce.accumulate) !=
          0) {
        throw std::runtime_error("wrong sums");
      }
      if (!reduce.in_place && own[k] != test::visible(sources[k][me])) throw std::runtime_error("the source changed");
      if (targets[k].back() != poison) throw std::runtime_error("an element behind the target changed");
    }
  });
}

TEST_CASE("reduce_scatter gives each rank the ordered sum of its shard") {
  const int size = GENERATE(1, 2, 3, 4, 8);
  Group group = make_group(size);
  for (const std::vector<int64_t>& shards : {std::vector<int64_t>{}, {0}, {1}, {777}, {5, 0, 2051, 64}}) {
    for (DType from : float_types()) {
      CHECK_NOTHROW(check_reduce_scatter(group, {from, from, false, false}, shards));
      CHECK_NOTHROW(check_reduce_scatter(group, {from, from, true, false}, shards));
      CHECK_NOTHROW(check_reduce_scatter(group, {from, DType::f32, false, false}, shards));
      CHECK_NOTHROW(check_reduce_scatter(group, {from, DType::f32, false, true}, shards));
      CHECK_NOTHROW(check_reduce_scatter(group, {from, from, false, true}, shards));
    }
  }
}

TEST_CASE("all_gather fills every rank's buffer with all shards, in place and not") {
  const int size = GENERATE(1, 2, 3, 4, 8);
  const DType type = GENERATE(DType::f32, DType::bf16, DType::u8);
  const bool in_place = GENERATE(false, true);
  const std::vector<int64_t> shards{7, 0, 1025};
  Group group = make_group(size);
  run_ranks(group, [&](Communicator& c) {
    std::vector<Buffer> parts, targets;
    std::vector<GatherRange> ranges;
    const auto part_of = [&](size_t k, int rank) {
      return Buffer(static_cast<size_t>(shards[k]) * core::dtype_size(type),
                    std::byte(16 * static_cast<int>(k) + rank + 1));
    };
    for (size_t k = 0; k < shards.size(); ++k) {
      parts.push_back(part_of(k, c.rank()));
      targets.emplace_back(parts[k].size() * group.size() + 1, poison);
    }
    for (size_t k = 0; k < shards.size(); ++k) {
      std::byte* own = targets[k].data() + parts[k].size() * static_cast<size_t>(c.rank());
      if (in_place && !parts[k].empty()) std::memcpy(own, parts[k].data(), parts[k].size());
      ranges.push_back({in_place ? own : parts[k].data(), targets[k].data(), shards[k]});
    }
    c.all_gather(ranges, type, "gather h.0");
    test::settle();
    for (size_t k = 0; k < shards.size(); ++k) {
      Buffer expected;
      for (int r = 0; r < size; ++r) {
        const Buffer part = part_of(k, r);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      expected.push_back(poison);
      if (targets[k] != expected) throw std::runtime_error("a wrong shard");
    }
  });
}

TEST_CASE("broadcast copies the root's buffer to all ranks") {
  const int size = GENERATE(1, 2, 3, 8);
  Group group = make_group(size);
  run_ranks(group, [&](Communicator& c) {
    for (int root = 0; root < size; ++root) {
      test::Visible<int32_t> data(101, c.rank());
      c.broadcast(data.data(), 101, DType::i32, root, "seed");
      test::settle();
      if (data != test::Visible<int32_t>(101, root)) throw std::runtime_error("not the root's data");
    }
  });
}

TEST_CASE("all_to_all transposes blocks between ranks") {
  const int size = GENERATE(1, 2, 3, 8);
  Group group = make_group(size);
  run_ranks(group, [&](Communicator& c) {
    constexpr int64_t count = 33;
    test::Visible<int32_t> source, target(static_cast<size_t>(count * size), -1), expected;
    for (int p = 0; p < size; ++p) {
      source.insert(source.end(), count, 100 * c.rank() + p);
      expected.insert(expected.end(), count, 100 * p + c.rank());
    }
    c.all_to_all(source.data(), target.data(), count, DType::i32, "tokens");
    test::settle();
    if (target != expected) throw std::runtime_error("a wrong block");
  });
}

TEST_CASE("send_recv exchanges grouped messages of different sizes, to itself and with none at all") {
  const int size = GENERATE(1, 2, 3, 4);
  Group group = make_group(size);
  run_ranks(group, [&](Communicator& c) {
    // Rank r sends two messages to r + 1, of r + 3 and 0 bytes, and one of 5 bytes to itself.
    const int next = (c.rank() + 1) % size, previous = (c.rank() + size - 1) % size;
    test::Visible<uint8_t> out(static_cast<size_t>(c.rank() + 3), static_cast<uint8_t>(c.rank() + 1)), self(5, 200);
    test::Visible<uint8_t> in(static_cast<size_t>(previous + 3), 0), own(5, 0);
    const std::vector<Message> sends{{next, out.data(), out.size()}, {next, nullptr, 0}, {c.rank(), self.data(), 5}};
    const std::vector<Message> receives{
        {previous, in.data(), in.size()}, {previous, nullptr, 0}, {c.rank(), own.data(), 5}};
    c.send_recv(sends, receives, "edge");
    test::settle();
    if (in != test::Visible<uint8_t>(in.size(), static_cast<uint8_t>(previous + 1)) || own != self) {
      throw std::runtime_error("a wrong message");
    }
    c.send_recv({}, {}, "nothing");
    c.barrier("end");
  });
}

TEST_CASE("counters hold what a rank receives from others in closed form") {
  const int size = GENERATE(1, 2, 4, 8);
  Group group = make_group(size);
  constexpr int64_t shard = 100, count = 800;
  run_ranks(group, [&](Communicator& c) {
    test::Visible<float> all(static_cast<size_t>(shard * size)), part(shard), whole(count);
    test::Visible<uint16_t> half(static_cast<size_t>(shard * size));
    const ReduceRange reduce_range{half.data(), part.data(), shard, false};
    const GatherRange gather_ranges[2]{{part.data(), all.data(), shard}, {nullptr, nullptr, 0}};
    c.reduce_scatter({&reduce_range, 1}, DType::bf16, DType::f32, "reduce");
    c.all_gather(gather_ranges, DType::f32, "gather");
    c.all_gather(gather_ranges, DType::f32, "gather");
    c.all_reduce(whole.data(), count, DType::f32, "sum");
    c.broadcast(whole.data(), count, DType::f32, 0, "broadcast");
    test::Visible<float> from(count), to(count);
    c.all_to_all(from.data(), to.data(), count / size, DType::f32, "tokens");
    const Message send{(c.rank() + 1) % size, from.data(), 12}, receive{(c.rank() + size - 1) % size, to.data(), 12};
    c.send_recv({&send, 1}, {&receive, 1}, "edge");
    c.barrier("end");
  });
  const uint64_t others = static_cast<uint64_t>(size - 1), ranks = static_cast<uint64_t>(size);
  for (const auto& member : group) {
    const Counters counters = member->counters();
    const auto of = [](const uint64_t* list, CollectiveKind kind) { return list[static_cast<size_t>(kind)]; };
    CHECK(of(counters.calls, CollectiveKind::all_gather) == 2);
    CHECK(of(counters.calls, CollectiveKind::barrier) == 1);
    CHECK(of(counters.elements, CollectiveKind::reduce_scatter) == shard * others);
    CHECK(of(counters.bytes, CollectiveKind::reduce_scatter) == shard * others * 2);
    CHECK(of(counters.elements, CollectiveKind::all_gather) == 2 * shard * others);
    CHECK(of(counters.bytes, CollectiveKind::all_gather) == 8 * shard * others);
    CHECK(of(counters.elements, CollectiveKind::all_reduce) == 2 * count * others / static_cast<uint64_t>(size));
    CHECK(of(counters.elements, CollectiveKind::broadcast) == (member->rank() == 0 || size == 1 ? 0u : count));
    CHECK(of(counters.bytes, CollectiveKind::barrier) == 0);
    // Hosts alternate: half of the ranks, those of the other parity, are elsewhere.
    const bool two_hosts = group_under_test() == "hosts" && size > 1, odd = member->rank() % 2 == 1;
    const uint64_t elsewhere = two_hosts ? ranks / 2 : 0;
    const auto between = [&](CollectiveKind kind) { return of(counters.bytes_between_hosts, kind); };
    CHECK(between(CollectiveKind::reduce_scatter) == shard * elsewhere * 2);
    CHECK(between(CollectiveKind::all_gather) == 8 * shard * elsewhere);
    CHECK(between(CollectiveKind::all_reduce) == 2 * 4 * count / ranks * elsewhere);
    CHECK(between(CollectiveKind::broadcast) == (two_hosts && odd ? 4u * count : 0u));
    CHECK(between(CollectiveKind::all_to_all) == 4 * count / ranks * elsewhere);
    CHECK(between(CollectiveKind::send_recv) == (two_hosts ? 12u : 0u));
    CHECK(between(CollectiveKind::barrier) == 0);
  }
}

TEST_CASE("flight records keep the last thousand calls, oldest first") {
  Group group = make_group(2);
  run_ranks(group, [&](Communicator& c) {
    for (int i = 0; i < 1005; ++i) c.barrier(fmt::format("b{}", i));
    test::Visible<float> x(1, 1.0f);
    c.all_reduce(x.data(), 1, DType::f32, "last");
  });
  for (const auto& member : group) {
    const std::vector<FlightRecord> records = member->flight_records();
    REQUIRE(records.size() == 1000);
    CHECK(records.front().label == "b6");
    CHECK(records.front().sequence == 7);
    CHECK(records.back().label == "last");
    CHECK(records.back().kind == CollectiveKind::all_reduce);
    CHECK(records.back().sequence == 1006);
    bool ordered = true;
    for (const FlightRecord& r : records) ordered = ordered && r.finished && r.end_seconds >= r.start_seconds;
    CHECK(ordered);
  }
}

// A thousand random calls on two groups at once, each on its own thread of every rank; returns a hash of all results.
std::string stress(uint64_t seed) {
  constexpr int size = 3;
  Group groups[2] = {make_group(size), make_group(size)};
  std::vector<core::Hash> hashes(2 * size);
  const auto lane = [&](Communicator& c, uint32_t g) {
    test::Visible<float> a(3000), b(3000);
    for (uint64_t i = 0; i < 500; ++i) {
      // All ranks draw the same call; the data differ by rank.
      const auto draw = core::philox({.seed = seed, .step = g, .tensor = 1}, i);
      const int64_t n = draw[1] % 900;
      for (size_t k = 0; k < a.size(); ++k) {
        a[k] = core::uniform(core::random_word({.seed = seed + i, .tensor = static_cast<uint32_t>(c.rank())}, k));
      }
      const ReduceRange reduce_range{a.data(), b.data(), n, (draw[2] & 1) != 0};
      const GatherRange gather_range{a.data(), b.data(), n};
      const Message send{(c.rank() + 1) % size, a.data(), static_cast<uint64_t>(n)};
      const Message receive{(c.rank() + 2) % size, b.data(), static_cast<uint64_t>(n)};
      switch (draw[0] % 6) {
        case 0:
          c.all_reduce(b.data(), n, DType::f32, "r");
          break;
        case 1:
          c.reduce_scatter({&reduce_range, 1}, DType::f32, DType::f32, "s");
          break;
        case 2:
          c.all_gather({&gather_range, 1}, DType::f32, "g");
          break;
        case 3:
          c.all_to_all(a.data(), b.data(), n, DType::f32, "t");
          break;
        case 4:
          c.broadcast(b.data(), n, DType::f32, static_cast<int>(draw[3] % size), "b");
          break;
        default:
          c.send_recv({&send, 1}, {&receive, 1}, "p");
          break;
      }
      test::settle();
      hashes[g * size + static_cast<size_t>(c.rank())].update(b.data(), b.size() * sizeof(float));
    }
  };
  std::thread other([&] { run_ranks(groups[1], [&](Communicator& c) { lane(c, 1); }); });
  run_ranks(groups[0], [&](Communicator& c) { lane(c, 0); });
  other.join();
  std::string text;
  for (const core::Hash& hash : hashes) text += hash.hex();
  return text;
}

TEST_CASE("a thousand random calls on two groups at once give the same bits each time") {
  const std::string first = stress(42);
  CHECK(stress(42) == first);
  CHECK(stress(43) != first);
}

}  // namespace
}  // namespace zrt::comm::thread_group_test

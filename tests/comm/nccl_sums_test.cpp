// Sums that NCCL takes in its own order (parallel.sums fast), through a stand-in: no GPU is needed.
#include <cstring>

#include "catch.h"
#include "comm/portions.h"
#include "nccl_stand_in.h"
#include "ranks.h"
#include "values.h"

namespace zrt::comm::nccl_sums_test {
namespace {

using namespace nccl_stand_in;

ncclDataType_t nccl_name(DType type) {
  return type == DType::f32 ? ncclFloat32 : type == DType::bf16 ? ncclBfloat16 : ncclFloat16;
}

// Adds up `count` elements of all ranks, from element `begin` on, as a ring that ends at `root` does.
Bytes ring(const std::vector<Bytes>& values, DType type, int64_t begin, int64_t count, int root) {
  const size_t size = core::dtype_size(type);
  std::vector<const std::byte*> by_rank;
  for (const Bytes& own : values) by_rank.push_back(own.data() + static_cast<size_t>(begin) * size);
  Bytes sum(static_cast<size_t>(count) * size);
  emulator::ring_sum(nccl_name(type), static_cast<size_t>(count), by_rank, root, sum.data());
  return sum;
}

std::vector<Bytes> values_of_ranks(int size, int64_t count, DType type) {
  std::vector<Bytes> all;
  for (int r = 0; r < size; ++r) all.push_back(make_values(count, type, r, 3));
  return all;
}

TEST_CASE("fast sums are those of NCCL for each rank's part, alike on all ranks, however little is staged") {
  ZRT_ONLY_ON_CPU();
  const int size = GENERATE(1, 2, 3, 5);
  const size_t staging = GENERATE(16, 400, 1 << 16);
  for (const DType type : float_types()) {
    StandInGroup nccl(alternating(size), staging, {}, true);
    Group threads = make_thread_group("dp", size, 60s);
    const int64_t count = 301 * size + 5, shard = 301;
    std::vector<Bytes> sums = values_of_ranks(size, count, type);
    const std::vector<Bytes> values = sums;
    std::vector<std::vector<float>> parts(static_cast<size_t>(size), std::vector<float>(shard, 0.25f));
    const auto call = [&](Communicator& c) {
      const auto r = static_cast<size_t>(c.rank());
      Bytes source = values[r], whole = values[r];
      c.all_reduce(whole.data(), count, type, "sum");
      const ReduceRange range{source.data(), parts[r].data(), shard, true};
      c.reduce_scatter({&range, 1}, type, DType::f32, "reduce");
      c.barrier("end");
      sums[r] = whole;
    };
    run_ranks(threads, call);
    parts.assign(parts.size(), std::vector<float>(shard, 0.25f));
    run_ranks(nccl.group, call);
    for (const auto& [key, queue] : nccl.post.messages) CHECK(queue.empty());
    Bytes expected;
    for (int r = 0; r < size; ++r) {
      const int64_t begin = slice_begin(count, size, r);
      const Bytes part = ring(values, type, begin, slice_begin(count, size, r + 1) - begin, r);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    for (int r = 0; r < size; ++r) {
      const auto own = static_cast<size_t>(r);
      CHECK((sums[own] == expected));
      const Bytes part = ring(values, type, r * shard, shard, r);
      const size_t element = core::dtype_size(type);
      for (size_t i = 0; i < parts[own].size(); ++i) {
        const float sum = emulator::nccl_value(nccl_name(type), part.data() + i * element);
        CHECK(parts[own][i] == 0.25f + sum);
      }
      const Counters fast = nccl.group[own]->counters(), flat = threads[own]->counters();
      CHECK(std::equal(std::begin(flat.bytes), std::end(flat.bytes), std::begin(fast.bytes)));
    }
  }
}

TEST_CASE("fast sums cross between hosts where a ring does, once for each rank's part") {
  ZRT_ONLY_ON_CPU();
  const std::vector<int> hosts{0, 0, 0, 1, 1, 1};
  StandInGroup nccl(hosts, 1 << 16, {}, true);
  const auto size = static_cast<int64_t>(hosts.size()), shard = int64_t{100};
  run_ranks(nccl.group, [&](Communicator& c) {
    Bytes source = make_values(shard * size, DType::bf16, c.rank(), 3);
    std::vector<float> sums(static_cast<size_t>(shard));
    const ReduceRange range{source.data(), sums.data(), shard, false};
    c.reduce_scatter({&range, 1}, DType::bf16, DType::f32, "reduce");
  });
  for (size_t r = 0; r < hosts.size(); ++r) {
    const Counters counters = nccl.group[r]->counters();
    const bool first = r == 0 || r == 3;
    CHECK(counters.bytes_between_hosts[static_cast<size_t>(CollectiveKind::reduce_scatter)] ==
          (first ? 5u * 100u * 2u : 0u));
  }
}

}  // namespace
}  // namespace zrt::comm::nccl_sums_test

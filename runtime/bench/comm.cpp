#include <cstring>
#include <memory>

#include "core/arena.h"
#include "runtime/bench/bench.h"

namespace zrt::runtime {

std::vector<CommBenchRow> bench_comm(int64_t bytes, comm::Transport& transport, int rounds, const Progress& progress) {
  const int ranks = transport.local_count();
  const int64_t shard = bytes / (4 * transport.world());  // fp32 elements of a rank
  const uint64_t size = static_cast<uint64_t>(shard * transport.world()) * 4;
  auto group = transport.make_group("bench", std::chrono::minutes(2));
  struct Buffers {
    std::unique_ptr<core::Arena> source, target;
  };
  std::vector<Buffers> buffers(static_cast<size_t>(ranks));
  progress("filling the buffers");
  time_ranks(ranks, 1, [&](int rank) {
    auto& b = buffers[static_cast<size_t>(rank)];
    b.source = transport.make_arena(transport.first_local() + rank, core::Tier::device, size);
    b.target = transport.make_arena(transport.first_local() + rank, core::Tier::device, size);
    std::memset(b.source->data(), 0x3c, size);
    std::memset(b.target->data(), 0x3c, size);
  });
  auto copy = [&](int rank) {
    auto& b = buffers[static_cast<size_t>(rank)];
    std::memcpy(b.target->data(), b.source->data(), size);
  };
  auto gather = [&](int rank) {
    auto& b = buffers[static_cast<size_t>(rank)];
    const comm::GatherRange range{b.source->data(), b.target->data(), shard};
    group[static_cast<size_t>(rank)]->all_gather({&range, 1}, core::DType::f32, "all-gather");
  };
  auto scatter = [&](core::DType type) {
    return [&, type](int rank) {
      auto& b = buffers[static_cast<size_t>(rank)];
      const int64_t count = type == core::DType::f32 ? shard : 2 * shard;
      const comm::ReduceRange range{b.source->data(), b.target->data(), count, false};
      group[static_cast<size_t>(rank)]->reduce_scatter({&range, 1}, type, type, "reduce-scatter");
    };
  };
  // Processes start together too, and none is done before all are.
  auto barrier = [&](int rank) {
    if (transport.world() > ranks) group[static_cast<size_t>(rank)]->barrier("bench");
  };
  auto time_all = [&](const std::function<void(int)>& body) {
    time_ranks(ranks, 1, barrier);
    return time_ranks(ranks, 1, [&](int rank) {
      body(rank);
      barrier(rank);
    });
  };
  const std::vector<std::pair<std::string, std::function<void(int)>>> operations{
      {"all-gather", gather},
      {"reduce-scatter fp32", scatter(core::DType::f32)},
      {"reduce-scatter bf16", scatter(core::DType::bf16)}};
  std::vector<CommBenchRow> rows;
  for (const auto& [name, operation] : operations) {
    progress("measuring " + name);
    std::vector<double> rates, ratios;
    for (int round = 0; round <= rounds; ++round) {
      const double seconds = time_all(operation), copied = time_all(copy);
      if (round == 0) continue;
      rates.push_back(static_cast<double>(size) / seconds);
      ratios.push_back(copied / seconds);
    }
    rows.push_back({name, spread(rates), spread(ratios)});
  }
  return rows;
}

}  // namespace zrt::runtime

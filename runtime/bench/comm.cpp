#include <cstring>
#include <memory>

#include "comm/thread_group.h"
#include "core/arena.h"
#include "runtime/bench/bench.h"

namespace zrt::runtime {

std::vector<CommBenchRow> bench_comm(int64_t bytes, int ranks, int rounds, const Progress& progress) {
  const int64_t shard = bytes / (4 * ranks);  // fp32 elements of a rank
  const uint64_t size = static_cast<uint64_t>(shard * ranks) * 4;
  auto group = comm::make_thread_group("bench", ranks, std::chrono::minutes(2));
  struct Buffers {
    std::unique_ptr<core::Arena> source, target;
  };
  std::vector<Buffers> buffers(static_cast<size_t>(ranks));
  progress("filling the buffers");
  time_ranks(ranks, 1, [&](int rank) {
    auto& b = buffers[static_cast<size_t>(rank)];
    b.source = std::make_unique<core::Arena>(core::Tier::device, size);
    b.target = std::make_unique<core::Arena>(core::Tier::device, size);
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
  const std::vector<std::pair<std::string, std::function<void(int)>>> operations{
      {"all-gather", gather},
      {"reduce-scatter fp32", scatter(core::DType::f32)},
      {"reduce-scatter bf16", scatter(core::DType::bf16)}};
  std::vector<CommBenchRow> rows;
  for (const auto& [name, operation] : operations) {
    progress("measuring " + name);
    std::vector<double> rates, ratios;
    for (int round = 0; round <= rounds; ++round) {
      const double seconds = time_ranks(ranks, 1, operation), copied = time_ranks(ranks, 1, copy);
      if (round == 0) continue;
      rates.push_back(static_cast<double>(size) / seconds);
      ratios.push_back(copied / seconds);
    }
    rows.push_back({name, spread(rates), spread(ratios)});
  }
  return rows;
}

}  // namespace zrt::runtime

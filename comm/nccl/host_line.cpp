#include "comm/nccl/host_line.h"

#include <algorithm>

namespace zrt::comm {

// The last hosts' ranks receive the partials of a whole column; those between them and the first also a result.
uint64_t HostLine::bytes(uint64_t elements, core::DType to) const {
  const uint64_t each = sizeof(float) * static_cast<uint64_t>(hosts) + (hosts > 2 ? core::dtype_size(to) : 0);
  return elements / static_cast<uint64_t>(size()) * each;
}

uint64_t HostLine::bytes_all_to_all(uint64_t elements, core::DType from) const {
  return elements / static_cast<uint64_t>(size()) * static_cast<uint64_t>(size() - per_host) * core::dtype_size(from);
}

bool HostLine::pays(uint64_t elements, core::DType from, core::DType to) const {
  constexpr uint64_t least = uint64_t{64} << 10;
  return bytes_all_to_all(elements, from) >= bytes(elements, to) + least * static_cast<uint64_t>(hosts);
}

std::optional<HostLine> host_line(std::span<const int> hosts) {
  const auto end = std::find_if(hosts.begin(), hosts.end(), [&](int host) { return host != hosts.front(); });
  const auto per_host = static_cast<size_t>(end - hosts.begin());
  if (end == hosts.end() || per_host < 2 || hosts.size() % per_host != 0) return std::nullopt;
  std::vector<int> seen;
  for (size_t r = 0; r < hosts.size(); ++r) {
    if (r % per_host != 0) {
      if (hosts[r] != hosts[r - 1]) return std::nullopt;
      continue;
    }
    if (std::find(seen.begin(), seen.end(), hosts[r]) != seen.end()) return std::nullopt;
    seen.push_back(hosts[r]);
  }
  return HostLine{static_cast<int>(seen.size()), static_cast<int>(per_host)};
}

uint64_t part_bytes(const HostLine& line, uint64_t staging, size_t element_bytes) {
  constexpr uint64_t unit = 16;
  const uint64_t wide = sizeof(float) / element_bytes;
  return staging / (static_cast<uint64_t>(line.per_host - 1) + 3 * wide) / unit * unit;
}

uint64_t LineSchedule::Item::elements() const {
  uint64_t sum = 0;
  for (const Chunk& chunk : *round) sum += static_cast<uint64_t>(chunk.count);
  return sum;
}

uint64_t LineSchedule::Item::extent(size_t element_bytes) const {
  const Chunk& last = round->back();
  return last.offset / element_bytes + static_cast<uint64_t>(last.count);
}

LineSchedule::LineSchedule(const HostLine& line, std::span<const std::vector<Round>> rounds)
    : columns_(static_cast<size_t>(line.per_host)) {
  size_t most = 0, longest = 0;
  for (const std::vector<Round>& own : rounds) most = std::max(most, own.size());
  for (int column = 0; column < line.per_host; ++column) {
    std::vector<Item>& items = columns_[static_cast<size_t>(column)];
    for (size_t k = 0; k < most; ++k) {
      for (int host = 0; host < line.hosts; ++host) {
        const int reader = line.rank(host, column);
        const std::vector<Round>& own = rounds[static_cast<size_t>(reader)];
        if (k < own.size()) items.push_back({reader, &own[k]});
      }
    }
    longest = std::max(longest, items.size());
  }
  if (longest > 0) ticks_ = static_cast<int64_t>(longest) + line.hosts;
}

const LineSchedule::Item* LineSchedule::at(int column, int64_t round) const {
  const std::vector<Item>& items = columns_[static_cast<size_t>(column)];
  const bool there = round >= 0 && round < static_cast<int64_t>(items.size());
  return there ? &items[static_cast<size_t>(round)] : nullptr;
}

}  // namespace zrt::comm

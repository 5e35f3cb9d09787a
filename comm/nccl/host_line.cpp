#include "comm/nccl/host_line.h"

#include <algorithm>

namespace zrt::comm {

namespace {
uint64_t divide_up(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}
}  // namespace

// A column has a round of each of its hosts' ranks for each round of one. Partials move in all ticks but the first and
// the last, contributions in all but the last; a rank of a host between the first and the last receives a result, too.
HostLine::Way HostLine::along(uint64_t elements, core::DType from, core::DType to, uint64_t staging) const {
  const uint64_t part = part_bytes(*this, staging, core::dtype_size(from));
  const uint64_t own = elements / static_cast<uint64_t>(size()), all = static_cast<uint64_t>(hosts);
  if (part == 0 || own == 0) return {};
  const uint64_t bytes = own * core::dtype_size(from), rounds = all * divide_up(bytes, part);
  const uint64_t partials = own * all * sizeof(float), result = hosts > 2 ? own * core::dtype_size(to) : 0;
  const uint64_t contributions = bytes * all * static_cast<uint64_t>(per_host - 1);
  return {rounds + all, contributions * (rounds + all - 1) / rounds, partials * (rounds + all - 2) / rounds + result};
}

HostLine::Way HostLine::all_to_all(uint64_t elements, core::DType from, uint64_t staging) const {
  const auto others = static_cast<uint64_t>(size() - 1), near = static_cast<uint64_t>(per_host - 1);
  const uint64_t bytes = elements / static_cast<uint64_t>(size()) * core::dtype_size(from);
  return {divide_up(bytes, std::max<uint64_t>(staging / others, 1)), bytes * near, bytes * (others - near)};
}

bool HostLine::pays(uint64_t elements, core::DType from, core::DType to, uint64_t staging) const {
  constexpr uint64_t tick = uint64_t{512} << 10;
  const Way line = along(elements, from, to, staging), direct = all_to_all(elements, from, staging);
  if (line.ticks == 0) return false;
  if (size() > most_direct) return true;
  const uint64_t more = line.ticks - std::min(line.ticks, direct.ticks);
  return direct.bytes_between >= line.bytes_between + more * tick;
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

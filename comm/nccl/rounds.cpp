#include "comm/nccl/rounds.h"

#include <algorithm>

namespace zrt::comm {

std::vector<Round> rounds_of(std::span<const Portion> portions, size_t element_bytes, uint64_t bytes) {
  constexpr uint64_t alignment = 16;  // of what the sum loads at a time
  std::vector<Round> rounds;
  uint64_t used = bytes;  // of the last round
  for (size_t i = 0; i < portions.size(); ++i) {
    for (int64_t begin = 0; begin < portions[i].count;) {
      if (used > bytes || bytes - used < element_bytes) {
        rounds.emplace_back();
        used = 0;
      }
      const uint64_t room = (bytes - used) / element_bytes;
      const auto count = static_cast<int64_t>(std::min(room, static_cast<uint64_t>(portions[i].count - begin)));
      rounds.back().push_back({i, begin, count, used});
      used += static_cast<uint64_t>(count) * element_bytes;
      used = (used + alignment - 1) / alignment * alignment;
      begin += count;
    }
  }
  return rounds;
}

}  // namespace zrt::comm

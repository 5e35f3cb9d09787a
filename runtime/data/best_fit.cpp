#include "runtime/data/best_fit.h"

#include <bit>
#include <cstddef>
#include <numeric>

namespace zrt::runtime::data {
namespace {

constexpr int64_t none = -1;

// Holds a bit for each room that some bin has left. Every level above has a bit for each word of the one below that is
// not zero, so that a search does not walk over rooms which no bin has.
class Rooms {
 public:
  explicit Rooms(int64_t rooms) {
    auto bits = static_cast<size_t>(rooms);
    do {
      bits = (bits + 63) / 64;
      levels_.emplace_back(bits, 0);
    } while (bits > 1);
  }

  void insert(int64_t room) {
    auto at = static_cast<size_t>(room);
    for (auto& words : levels_) {
      words[at / 64] |= uint64_t{1} << (at % 64);
      at /= 64;
    }
  }

  void erase(int64_t room) {
    auto at = static_cast<size_t>(room);
    for (auto& words : levels_) {
      words[at / 64] &= ~(uint64_t{1} << (at % 64));
      if (words[at / 64] != 0) return;
      at /= 64;
    }
  }

  // Finds the smallest of at least `room`.
  int64_t next(int64_t room) const {
    auto at = static_cast<size_t>(room);
    for (size_t level = 0; level < levels_.size(); ++level) {
      const size_t word = at / 64;
      if (word >= levels_[level].size()) return none;
      if (const uint64_t bits = levels_[level][word] >> (at % 64); bits != 0) {
        at += static_cast<size_t>(std::countr_zero(bits));
        for (; level > 0; --level) at = 64 * at + static_cast<size_t>(std::countr_zero(levels_[level - 1][at]));
        return static_cast<int64_t>(at);
      }
      at = word + 1;
    }
    return none;
  }

 private:
  std::vector<std::vector<uint64_t>> levels_;
};

// Sorts the pieces' numbers by a stable counting sort.
std::vector<int64_t> longest_first(std::span<const int32_t> lengths, int64_t size) {
  std::vector<int64_t> next(static_cast<size_t>(size) + 1, 0), sorted(lengths.size());
  for (const int32_t length : lengths) ++next[static_cast<size_t>(size - length) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (size_t i = 0; i < lengths.size(); ++i)
    sorted[static_cast<size_t>(next[static_cast<size_t>(size - lengths[i])]++)] = static_cast<int64_t>(i);
  return sorted;
}

}  // namespace

Packing best_fit(std::span<const int32_t> lengths, int64_t size) {
  Packing packing{std::vector<int64_t>(lengths.size()), 0};
  Rooms rooms(size);
  std::vector<int64_t> last(static_cast<size_t>(size), none);  // by room: the bin that came to it last
  std::vector<int64_t> before;                                 // by bin: the one that came to its room before it
  for (const int64_t piece : longest_first(lengths, size)) {
    const int64_t length = lengths[static_cast<size_t>(piece)];
    // Every bin has something in it, so that no room is as large as `size`.
    int64_t room = length < size ? rooms.next(length) : none, bin = packing.count;
    if (room == none) {
      ++packing.count;
      before.push_back(none);
      room = size;
    } else {
      int64_t& top = last[static_cast<size_t>(room)];
      bin = top;
      top = before[static_cast<size_t>(bin)];
      if (top == none) rooms.erase(room);
    }
    packing.bins[static_cast<size_t>(piece)] = bin;
    room -= length;
    if (room == 0) continue;
    int64_t& top = last[static_cast<size_t>(room)];
    if (top == none) rooms.insert(room);
    before[static_cast<size_t>(bin)] = top;
    top = bin;
  }
  return packing;
}

}  // namespace zrt::runtime::data

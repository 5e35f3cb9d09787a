// Says which two tokens become one, and in which order.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/data/tokenizer_json/scratch.h"
#include "runtime/data/tokenizer_json/vocabulary.h"

namespace zrt::runtime::data::tokenizer_json {

class Merges {
 public:
  struct Merge {
    uint32_t rank = none;  // the lowest goes first
    int32_t id = -1;       // of the token that is made
  };
  static constexpr uint32_t none = UINT32_MAX;

  // "merges": [["a", "b"], …] or ["a b", …]. `prefix`: what the second one drops. Throws DataError naming the merge
  // whose tokens are not in the vocabulary.
  Merges(Fields& fields, const Vocabulary& vocabulary, std::string_view prefix);

  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t at = place(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == free_key) return {};
    }
  }

  // Replaces ids[begin…] by what is left when no two neighbours can be merged.
  void apply(std::vector<int32_t>& ids, size_t begin, Scratch& scratch) const;

 private:
  static constexpr uint64_t free_key = UINT64_MAX;
  struct Slot {
    uint64_t key = free_key;
    Merge merge;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t place(uint64_t key) const { return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> 20) & mask_; }
  void add(int32_t left, int32_t right, Merge merge);
  // For few symbols: looks for the lowest rank anew each time.
  void apply_few(std::vector<int32_t>& ids, size_t begin, std::vector<uint32_t>& ranks) const;
  // For many: keeps a heap of candidates.
  void apply_many(std::vector<int32_t>& ids, size_t begin, Scratch& scratch) const;

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace zrt::runtime::data::tokenizer_json

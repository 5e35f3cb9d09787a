// Memory of one thread while it encodes, used again and again, and the ids of words that it has seen.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/hash.h"

namespace zrt::runtime::data::tokenizer_json {

// Each word has one place, which the newest takes.
class WordCache {
 public:
  static constexpr size_t longest_word = 46, most_ids = 16;

  struct Entry {
    uint64_t hash = 0;
    uint8_t bytes = 0, count = 0;  // of the word and of its ids; 0 bytes: free
    std::array<char, longest_word> word{};
    std::array<int32_t, most_ids> ids{};
    bool is(uint64_t h, std::string_view text) const {
      return hash == h && bytes == text.size() && std::memcmp(word.data(), text.data(), text.size()) == 0;
    }
  };

  static uint64_t hash_of(std::string_view word) { return core::xxh3(word.data(), word.size()); }
  Entry& entry(uint64_t hash) { return entries_[hash % entries_.size()]; }
  static void keep(Entry& entry, uint64_t hash, std::string_view word, std::span<const int32_t> ids) {
    if (word.size() > longest_word || ids.size() > most_ids) return;
    entry.hash = hash;
    entry.bytes = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

 private:
  std::vector<Entry> entries_ = std::vector<Entry>(size_t{1} << 15);
};

struct Scratch {
  struct Symbol {
    int32_t id, before, after;  // -1: none; an id of -1 was merged into another
  };
  struct Candidate {
    uint64_t order;  // rank and place: the smallest is merged first
    int32_t merged;
  };
  struct Step {
    double score;
    int32_t begin, id;
  };
  WordCache cache;
  std::vector<int32_t> ids;
  std::vector<uint32_t> ranks;
  std::vector<Symbol> symbols;
  std::vector<Candidate> candidates;
  std::vector<Step> steps;
};

}  // namespace zrt::runtime::data::tokenizer_json

#include "runtime/data/tokenizer_json/trie.h"

#include <algorithm>

namespace zrt::runtime::data::tokenizer_json {

Trie::Trie(std::vector<std::pair<std::string, int32_t>> words) {
  std::stable_sort(words.begin(), words.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // Nodes are made level by level, so that the children of each lie together. A range of words shares `depth` bytes.
  struct Range {
    size_t begin, end, depth;
    int32_t parent;
  };
  std::vector<Range> ranges{{0, words.size(), 0, -1}};
  for (size_t r = 0; r < ranges.size(); ++r) {
    const Range range = ranges[r];
    size_t at = range.begin;
    while (at < range.end && words[at].first.size() == range.depth) {
      if (range.parent >= 0) nodes_[static_cast<size_t>(range.parent)].number = words[at].second;
      ++at;
    }
    if (range.parent >= 0) nodes_[static_cast<size_t>(range.parent)].first = static_cast<uint32_t>(nodes_.size());
    while (at < range.end) {
      const auto byte = static_cast<unsigned char>(words[at].first[range.depth]);
      size_t end = at;
      while (end < range.end && static_cast<unsigned char>(words[end].first[range.depth]) == byte) ++end;
      const auto node = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({-1, 0, 0, byte});
      if (range.parent >= 0)
        ++nodes_[static_cast<size_t>(range.parent)].count;
      else
        roots_[byte] = node;
      ranges.push_back({at, end, range.depth + 1, node});
      at = end;
    }
  }
}

int32_t Trie::child(const Node& node, uint8_t byte) const {
  const auto* begin = nodes_.data() + node.first;
  const auto* end = begin + node.count;
  if (node.count > 16) {
    begin = std::lower_bound(begin, end, byte, [](const Node& a, uint8_t b) { return a.byte < b; });
    return begin != end && begin->byte == byte ? static_cast<int32_t>(begin - nodes_.data()) : -1;
  }
  for (; begin != end; ++begin)
    if (begin->byte == byte) return static_cast<int32_t>(begin - nodes_.data());
  return -1;
}

}  // namespace zrt::runtime::data::tokenizer_json

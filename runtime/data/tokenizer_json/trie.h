// The words of a list that a text begins with.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zrt::runtime::data::tokenizer_json {

class Trie {
 public:
  Trie() = default;
  // Words with their numbers, 0 and above. Of equal words the last counts; empty ones are left out.
  explicit Trie(std::vector<std::pair<std::string, int32_t>> words);

  // Calls found(bytes, number) for each word at the start of `text`, the shortest first.
  template <class Found>
  void prefixes(std::string_view text, Found&& found) const {
    if (text.empty()) return;
    int32_t node = roots_[static_cast<unsigned char>(text[0])];
    for (size_t at = 1; node >= 0; ++at) {
      const Node& here = nodes_[static_cast<size_t>(node)];
      if (here.number >= 0) found(at, here.number);
      if (at >= text.size()) return;
      node = child(here, static_cast<unsigned char>(text[at]));
    }
  }

  bool begins(char byte) const { return roots_[static_cast<unsigned char>(byte)] >= 0; }  // some word
  bool empty() const { return nodes_.empty(); }

 private:
  struct Node {
    int32_t number = -1;
    uint32_t first = 0;  // of its children, which lie together in the order of their bytes
    uint16_t count = 0;
    uint8_t byte = 0;
  };
  int32_t child(const Node& node, uint8_t byte) const;
  std::vector<Node> nodes_;
  std::array<int32_t, 256> roots_ = [] {
    std::array<int32_t, 256> none{};
    none.fill(-1);
    return none;
  }();
};

}  // namespace zrt::runtime::data::tokenizer_json

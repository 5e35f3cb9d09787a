// The texts of ids and the ids of texts.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/data/tokenizer_json/fields.h"

namespace zrt::runtime::data::tokenizer_json {

class Vocabulary {
 public:
  // Reads "vocab": {"text": id, …}, as BPE and WordPiece write it. Throws DataError for ids that are none, or leave
  // wide gaps.
  static Vocabulary of_object(Fields& fields);

  void add(std::string text, int32_t id);
  int32_t find(std::string_view text) const;                            // -1 when it is not there
  int32_t size() const { return static_cast<int32_t>(texts_.size()); }  // the largest id and one
  const std::string& text(int32_t id) const { return texts_[static_cast<size_t>(id)]; }
  // The id of the piece for each byte, "<0x00>" to "<0xFF>"; -1 where it is missing.
  std::vector<int32_t> byte_pieces() const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::vector<std::string> texts_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
};

}  // namespace zrt::runtime::data::tokenizer_json

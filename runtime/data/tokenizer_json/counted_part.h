// Finds the tokens of a part of a text that count, from the bytes of it that do.
//
// Between the tokens that stand in a text as they are, a normalizer and a pre-tokenizer rewrite it before the model
// sees it. What the model sees of a part, one piece behind the other, is its flat text: it has U+2581 for spaces,
// composed characters, a space in front. The tokens of a piece have their places in it where their texts, one behind
// the other, are the piece. A place in the part is found in the flat text by making that of what stands before it: the
// two must begin alike.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace zrt::runtime::data::tokenizer_json {

class CountedPart {
 public:
  // Adds a piece and the texts of its tokens.
  void add(std::string_view piece, const std::vector<std::string>& tokens);
  const std::string& flat() const { return flat_; }

  using Flatten = std::function<std::string(std::string_view beginning)>;
  // Appends 1 for each token that has to do with a byte that counts, else 0. `counts`: a byte for each of `part`;
  // `flatten` makes the flat text of a beginning of it. Throws DataError where it is not known which tokens count.
  void count(std::string_view part, std::string_view counts, const Flatten& flatten, std::vector<uint8_t>& out) const;

 private:
  struct Span {
    size_t begin, end;  // in flat_
    bool exact;         // else several tokens share it
  };
  size_t place(std::string_view part, size_t at, bool backwards, const Flatten& flatten) const;

  std::string flat_;
  std::vector<Span> spans_;  // of the tokens
};

}  // namespace zrt::runtime::data::tokenizer_json

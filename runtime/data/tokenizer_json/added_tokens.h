// Tokens that are found in a text as they stand, before the model sees it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/data/tokenizer_json/normalizer.h"
#include "runtime/data/tokenizer_json/trie.h"
#include "runtime/data/tokenizer_json/vocabulary.h"

namespace zrt::runtime::data::tokenizer_json {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  std::string text;          // that is looked for, and decoded to: of a normalized one what the normalizer makes of it
  bool special = false;      // control: it decodes to nothing
  bool single_word = false;  // no word character may touch it
  bool lstrip = false, rstrip = false;  // it takes the white space before or behind it along
  bool normalized = false;              // looked for in the text, and as, the normalizer makes it
};

class AddedTokens {
 public:
  // Reads "added_tokens". Throws DataError where one contradicts the model's vocabulary or another.
  AddedTokens(Fields& fields, const Vocabulary& vocabulary, const Normalizer* normalizer);

  // Calls text(part) for what is none of them and token(id, part) for each, from left to right; white space that it
  // takes along is of its part. `normalized`: looks for those that are normalized, else for the others.
  template <class Text, class Token>
  void split(std::string_view text, bool normalized, const Text& on_text, const Token& on_token) const {
    const Trie& trie = normalized ? normalized_ : plain_;
    size_t done = 0;
    if (!trie.empty()) {
      for (size_t at = 0; at < text.size();) {
        if (!trie.begins(text[at])) {
          ++at;
          continue;
        }
        Match match = find(trie, text, at, done);
        at = match.next;
        if (match.token == nullptr) continue;
        if (match.begin > done) on_text(text.substr(done, match.begin - done));
        on_token(match.token->id, text.substr(match.begin, match.end - match.begin));
        done = match.end;
      }
    }
    if (done < text.size()) on_text(text.substr(done));
  }

  const std::vector<AddedToken>& all() const { return tokens_; }
  const AddedToken* with_id(int32_t id) const;

 private:
  struct Match {
    const AddedToken* token = nullptr;
    size_t begin = 0, end = 0;  // with the white space that it takes along
    size_t next = 0;            // the search goes on here
  };
  // `done`: text before is taken.
  Match find(const Trie& trie, std::string_view text, size_t at, size_t done) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  Trie plain_, normalized_;  // of places in tokens_
};

}  // namespace zrt::runtime::data::tokenizer_json

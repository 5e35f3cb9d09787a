// WordPiece (Wu et al. 2016): the longest token that a word begins with, and on from there; and WordLevel, which knows
// whole words alone.
#include <fmt/format.h>

#include "core/error.h"
#include "runtime/data/tokenizer_json/model.h"
#include "runtime/data/tokenizer_json/trie.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

int32_t unknown_id(Fields& fields, const Vocabulary& vocabulary, const char* otherwise) {
  const int32_t id = vocabulary.find(fields.text("unk_token", otherwise));
  if (id < 0) fields.refuse("unk_token", "it must be in the vocabulary");
  return id;
}

class WordPiece : public Model {
 public:
  WordPiece(Vocabulary vocabulary, int32_t unknown, std::string prefix, size_t longest)
      : Model(std::move(vocabulary)), unknown_(unknown), prefix_(std::move(prefix)), longest_(longest) {
    std::vector<std::pair<std::string, int32_t>> begins, continues;
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      const std::string& text = vocabulary_.text(id);
      begins.emplace_back(text, id);
      if (text.starts_with(prefix_)) continues.emplace_back(text.substr(prefix_.size()), id);
    }
    begins_ = Trie(std::move(begins));
    continues_ = Trie(std::move(continues));
  }
  std::string_view continuing_prefix() const override { return prefix_; }

 protected:
  void find_ids(std::string_view word, Scratch&, std::vector<int32_t>& out) const override {
    if (characters(word) > longest_) return out.push_back(unknown_);
    const size_t first = out.size();
    for (size_t at = 0; at < word.size();) {
      size_t longest = 0;
      int32_t id = -1;
      (at == 0 ? begins_ : continues_).prefixes(word.substr(at), [&](size_t bytes, int32_t found) {
        longest = bytes;
        id = found;
      });
      if (id < 0) {  // the whole word is unknown
        out.resize(first);
        return out.push_back(unknown_);
      }
      out.push_back(id);
      at += longest;
    }
  }

 private:
  static size_t characters(std::string_view word) {
    size_t count = 0;
    for (size_t at = 0; at < word.size(); at += character_at(word, at).bytes) ++count;
    return count;
  }
  int32_t unknown_;
  std::string prefix_;
  size_t longest_;
  Trie begins_, continues_;
};

class WordLevel : public Model {
 public:
  WordLevel(Vocabulary vocabulary, int32_t unknown) : Model(std::move(vocabulary)), unknown_(unknown) {}

 protected:
  void find_ids(std::string_view word, Scratch&, std::vector<int32_t>& out) const override {
    const int32_t id = vocabulary_.find(word);
    out.push_back(id >= 0 ? id : unknown_);
  }

 private:
  int32_t unknown_;
};

}  // namespace

std::unique_ptr<Model> read_word_piece(Fields& fields) {
  Vocabulary vocabulary = Vocabulary::of_object(fields);
  const int32_t unknown = unknown_id(fields, vocabulary, "[UNK]");
  std::string prefix = fields.text("continuing_subword_prefix", "##");
  const auto longest = static_cast<size_t>(fields.number("max_input_chars_per_word", 1, int64_t{1} << 30, 100));
  fields.finish();
  return std::make_unique<WordPiece>(std::move(vocabulary), unknown, std::move(prefix), longest);
}

std::unique_ptr<Model> read_word_level(Fields& fields) {
  Vocabulary vocabulary = Vocabulary::of_object(fields);
  const int32_t unknown = unknown_id(fields, vocabulary, "<unk>");
  fields.finish();
  return std::make_unique<WordLevel>(std::move(vocabulary), unknown);
}

}  // namespace zrt::runtime::data::tokenizer_json

// tokenizer.json of Hugging Face: a file that says how text becomes ids, and the classes that do it.
//
// A text goes through four steps, each of which is a class of its own with a subclass for each type that a file can
// name, in its own small file:
//
//   added_tokens.h    finds the tokens that stand in the text as they are, such as <|endoftext|>
//   normalizer.h      rewrites what lies between them: normal forms, case, SentencePiece's rules (charsmap.cpp)
//   pre_tokenizer.h   cuts it into pieces, mostly words (cuts.h, pattern.h and regex.h say at what)
//   model.h           turns each piece into ids: BPE (bpe.cpp, merges.h), Unigram, WordPiece, WordLevel
//
// and back through decoder.h. template.h reads what a post-processor puts around a text; end_of_document.h finds the id
// that ends one; counted_part.h says which tokens of a conversation count. Below lie fields.h, which reads JSON and
// refuses by name what zrt does not have; unicode.h and regex.h, the only ones that know ICU and PCRE2; trie.h,
// vocabulary.h, byte_level.h and scratch.h, the memory of one thread.
//
// Ids are those of the library `tokenizers`; tests/data/tokenizers has the proof and says where the two differ: in
// characters that only the newer one's Unicode has.
//
// A new type is a subclass and a line in its read_…(). The model sees pieces through a PieceSink, one after the other,
// so that no list of them is ever made.
//
// Belongs here: what such a file can say. Does not: other forms of tokenizers (sentencepiece_tokenizer.h beside the
// folder), files of text, datasets.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/tokenizer.h"

namespace zrt::runtime::data::tokenizer_json {

class JsonTokenizer : public Tokenizer {
 public:
  struct Ends {
    std::string named;       // the token that ends documents; "": the next
    std::string configured;  // what a configuration beside the file says; "": the file's own, by its name
  };
  // `model`: the bytes of a tokenizer.json; `source` names it in messages. Throws DataError where they are corrupt or
  // ask for what zrt does not have, ConfigError where no token is known to end documents.
  JsonTokenizer(std::string model, std::string source, const Ends& ends);
  ~JsonTokenizer() override;
  // `eod`: the token that ends documents; "": that of the configuration beside the file, or of its own.
  static std::unique_ptr<JsonTokenizer> open(const std::string& path, const std::string& eod);

  const std::string& name() const override;
  int64_t vocab_size() const override;
  int32_t eod() const override;
  std::string eod_text() const override;
  WordPart word_part(int32_t token) const override;
  std::string_view model() const override;
  const std::string& xxh3() const override;
  const std::vector<int32_t>& before_text() const override;  // of the post-processor's template
  const std::vector<int32_t>& after_text() const override;

  // From any thread. Bytes that are no UTF-8 become the model's ids for bytes, else U+FFFD. Without the template: a
  // document's ids are those of its text.
  void encode(std::string_view document, std::vector<int32_t>& out) const override;
  void encode_counted(std::string_view text, std::string_view counts, std::vector<int32_t>& out,
                      std::vector<uint8_t>& counted) const override;
  // The text is the normalizer's, not the original, and unknown tokens do not become it again.
  std::string decode(std::span<const int32_t> tokens) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zrt::runtime::data::tokenizer_json

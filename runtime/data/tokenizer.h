// Text to token ids and back.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zrt::runtime::data {

// The part that a token is of a word, where words stand between white space.
enum class WordPart : uint8_t { between, begins, continues };
WordPart word_part_of(std::string_view text);  // of a token that stands for `text`

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual const std::string& name() const = 0;  // its kind, as in PREFIX.meta.json
  virtual int64_t vocab_size() const = 0;
  virtual int32_t eod() const = 0;  // end of document
  // The text of eod() where a caller chose it (make_tokenizer()), else "".
  virtual std::string eod_text() const { return {}; }
  // Ids that stand before and behind a text for a model that was trained so, such as [CLS] and [SEP]; encode() leaves
  // them out.
  virtual const std::vector<int32_t>& before_text() const;
  virtual const std::vector<int32_t>& after_text() const;

  // The bytes of its model file, and their XXH3-64 in hex, which tells two tokenizers apart; empty without a file.
  virtual std::string_view model() const { return {}; }
  virtual const std::string& xxh3() const;

  virtual WordPart word_part(int32_t token) const = 0;

  // True where text may be encoded in pieces cut anywhere.
  virtual bool bytewise() const { return false; }

  // Appends the ids of `document` to `out`, without end-of-document. Any bytes can be encoded.
  virtual void encode(std::string_view document, std::vector<int32_t>& out) const = 0;
  // Appends the same ids for UTF-8, and for each whether it counts: 1 where some of its bytes do, else 0. `counts`: 1
  // or 0 for each byte of `text`. Throws ConfigError where this kind of tokenizer cannot say, DataError where it cannot
  // for this text.
  virtual void encode_counted(std::string_view text, std::string_view counts, std::vector<int32_t>& out,
                              std::vector<uint8_t>& counted) const;
  // Returns the bytes of ids that start a document: decode(encode(x)) == x. End-of-document and other control ids have
  // none. Throws DataError for an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
};

inline constexpr const char* tokenizer_json_name = "tokenizer.json";  // of Hugging Face's

// An id is a byte; 256 ends a document.
class ByteTokenizer : public Tokenizer {
 public:
  const std::string& name() const override;
  int64_t vocab_size() const override { return 257; }
  int32_t eod() const override { return 256; }
  bool bytewise() const override { return true; }
  WordPart word_part(int32_t token) const override;
  void encode(std::string_view document, std::vector<int32_t>& out) const override;
  void encode_counted(std::string_view text, std::string_view counts, std::vector<int32_t>& out,
                      std::vector<uint8_t>& counted) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
};

// `name` is "bytes", or the path of a SentencePiece model, which ends in .model, or of a tokenizer.json, which ends in
// .json, or of a folder with one. `eod` is the token of a tokenizer.json that ends documents, or its id; "": the one
// that it or its folder names. Throws ConfigError that lists what is legal, DataError for a bad model.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, const std::string& eod = "");

}  // namespace zrt::runtime::data

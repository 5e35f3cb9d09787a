// Text to token ids and back.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zrt::models::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual const std::string& name() const = 0;  // what make_tokenizer() and PREFIX.meta.json call it
  virtual int64_t vocab_size() const = 0;
  virtual int32_t eod() const = 0;  // end of document

  // Whether text may be encoded in pieces cut anywhere.
  virtual bool bytewise() const { return false; }

  // Appends the ids of `text` to `out`, without end-of-document.
  virtual void encode(std::string_view text, std::vector<int32_t>& out) const = 0;
  // End-of-document ids decode to nothing. Throws DataError for an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
};

// An id is a byte; 256 ends a document.
class ByteTokenizer : public Tokenizer {
 public:
  const std::string& name() const override;
  int64_t vocab_size() const override { return 257; }
  int32_t eod() const override { return 256; }
  bool bytewise() const override { return true; }
  void encode(std::string_view text, std::vector<int32_t>& out) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
};

// "bytes". Throws ConfigError that lists the names.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

}  // namespace zrt::models::data

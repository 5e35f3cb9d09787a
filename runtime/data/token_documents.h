// Documents of tokens, numbered from 0: what samples are cut from.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace zrt::runtime::data {

class TokenMask;

class TokenDocuments {
 public:
  virtual ~TokenDocuments();
  virtual std::string source() const = 0;              // the files' name in messages
  virtual int64_t sequences() const = 0;               // documents, as Megatron calls them
  virtual int64_t tokens() const = 0;                  // of all
  virtual int32_t length(int64_t sequence) const = 0;  // tokens
  virtual const std::string& xxh3() const = 0;         // of the index; of files without one, of all tokens
  // Reads and hashes the tokens, large files in samples (core::InputFile::sampled_xxh3). Throws DataError.
  virtual std::string tokens_xxh3() const = 0;

  // Copies tokens [offset, offset + count) of a sequence. Throws DataError naming file and position when one is not
  // in [0, vocabulary), and when the range leaves the sequence. May run in many threads.
  virtual void read(int64_t sequence, int64_t offset, int64_t count, int64_t vocabulary, int32_t* out) const = 0;

  // Says which tokens count; null where all do.
  const TokenMask* mask() const { return mask_.get(); }
  void set_mask(std::unique_ptr<const TokenMask> mask);

 protected:
  TokenDocuments();

 private:
  std::unique_ptr<const TokenMask> mask_;
};

// `name` is the prefix of a Megatron .bin/.idx pair (indexed_dataset.h), or an llm.c token file or a pattern of them,
// which ends in .bin (llmc_dataset.h). Throws DataError, also when a description or counts beside it are of another
// dataset.
std::unique_ptr<TokenDocuments> open_documents(const std::string& name);
// The same without a look at the description and the counts.
std::unique_ptr<TokenDocuments> open_undescribed_documents(const std::string& name);

}  // namespace zrt::runtime::data

// Reader of llm.c's token files. A file is 256 int32 (magic, version, number of tokens, zeros), little-endian, then the
// tokens: magic 20240520, version 1: u16 of GPT-2; magic 20240801, version 7: u32 of Llama 3.
//
// llm.c writes the end-of-text id (50256, 128000) before each document, so a document starts with each of them; what
// stands before the first is a document, too. Sizes are known only after a pass over all tokens, made on open.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/hash.h"
#include "runtime/data/token_documents.h"

namespace zrt::runtime::data {

class LlmcDataset : public TokenDocuments {
 public:
  // A file, or with *, ? or [ a pattern of the shell's kind, whose files are read in the order of their names; a file
  // or folder of just that name is that. Throws DataError naming the file when none matches, one is truncated or
  // corrupt, or two are of different kinds.
  explicit LlmcDataset(const std::string& pattern);

  std::string source() const override { return pattern_; }
  int64_t sequences() const override { return static_cast<int64_t>(documents_.size()); }
  int64_t tokens() const override { return tokens_; }
  int32_t length(int64_t sequence) const override { return documents_.at(static_cast<size_t>(sequence)).tokens; }
  const std::string& xxh3() const override { return xxh3_; }
  std::string tokens_xxh3() const override { return xxh3_; }
  void read(int64_t sequence, int64_t offset, int64_t count, int64_t vocabulary, int32_t* out) const override;

 private:
  struct Document {
    int32_t shard, first, tokens;
  };
  void add_shard(const std::string& path, core::Hash& hash);
  // Fills `out` with tokens from `first` of a shard. Throws DataError when the file ends before.
  void read_tokens(const core::InputFile& shard, int64_t first, std::span<uint32_t> out) const;

  std::string pattern_, xxh3_;
  std::vector<core::InputFile> shards_;
  std::vector<Document> documents_;
  int64_t tokens_ = 0, token_bytes_ = 0;
};

// True where `name` is for this reader: it ends in .bin.
bool is_llmc_name(const std::string& name);
// True for a number, little-endian, that files of llm.c begin with.
bool is_llmc_magic(int32_t number);

}  // namespace zrt::runtime::data

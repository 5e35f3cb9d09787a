// Reader of a Megatron indexed dataset (layout: indexed_format.h). The index is read on open; tokens are read, not
// mapped: of a file that was cut meanwhile a map has zeros, or ends the process. Const calls may run in many threads.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/hash.h"
#include "runtime/data/indexed_format.h"
#include "runtime/data/token_documents.h"

namespace zrt::runtime::data {

class IndexedDataset : public TokenDocuments {
 public:
  // Checks the whole index. Throws DataError naming the file, the value and what is legal when a file is missing,
  // truncated or contradicts itself or the other one.
  explicit IndexedDataset(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  TokenType type() const { return type_; }
  std::string source() const override { return bin_path(prefix_); }
  int64_t sequences() const override { return static_cast<int64_t>(lengths_.size()); }
  int64_t documents() const { return documents_; }
  int64_t tokens() const override { return tokens_; }
  int32_t length(int64_t sequence) const override { return lengths_[static_cast<size_t>(sequence)]; }
  const std::string& xxh3() const override { return xxh3_; }
  std::string tokens_xxh3() const override { return bin_.sampled_xxh3(); }
  void read(int64_t sequence, int64_t offset, int64_t count, int64_t vocabulary, int32_t* out) const override;

 private:
  void read_header(const core::InputFile& idx, core::Hash& hash);
  void check_sequences(const std::string& idx);
  void check_documents(const core::InputFile& idx, core::Hash& hash) const;
  // Throws DataError when the file ends before.
  void read_tokens(int64_t byte, int64_t count, int32_t* out) const;

  std::string prefix_;
  core::InputFile bin_;
  TokenType type_ = TokenType::u16;
  int64_t documents_ = 0, tokens_ = 0;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> pointers_;  // bytes
  std::string xxh3_;
};

}  // namespace zrt::runtime::data

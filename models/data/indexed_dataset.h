// Reader of a Megatron indexed dataset (layout: indexed_format.h). Both files are mapped; nothing is copied on open.
// Const calls may run in many threads.
#pragma once
#include <cstdint>
#include <string>

#include "models/data/indexed_format.h"
#include "models/data/mapped_file.h"
#include "models/data/token_documents.h"

namespace zrt::models::data {

class IndexedDataset : public TokenDocuments {
 public:
  // Checks the whole index. Throws DataError naming the file, the value and what is legal when a file is missing,
  // truncated or contradicts itself or the other one.
  explicit IndexedDataset(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  TokenType type() const { return type_; }
  std::string source() const override { return bin_path(prefix_); }
  int64_t sequences() const override { return sequences_; }
  int64_t documents() const { return documents_; }
  int64_t tokens() const override { return tokens_; }
  int32_t length(int64_t sequence) const override { return load<int32_t>(lengths_, sequence); }
  void read(int64_t sequence, int64_t offset, int64_t count, int64_t vocabulary, int32_t* out) const override;

 private:
  void read_header();
  void check_sequences();
  void check_documents() const;

  std::string prefix_;
  MappedFile idx_, bin_;
  TokenType type_ = TokenType::u16;
  int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
  const std::byte *lengths_ = nullptr, *pointers_ = nullptr, *document_starts_ = nullptr;
};

}  // namespace zrt::models::data

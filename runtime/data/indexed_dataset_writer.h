// Writer of a Megatron indexed dataset, one sequence per document, byte for byte as Megatron writes it. Tokens stream
// to disk; memory grows by four bytes per document.
//
// Both files are written under temporary names. The old index is removed first and the new one appears last, so that
// whenever the process dies, PREFIX.bin and PREFIX.idx are both old, both new, or not a pair. The pair that says which
// tokens count (counts_prefix) is gone before the new index appears, or new.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset_meta.h"
#include "runtime/data/indexed_format.h"
#include "runtime/data/output_file.h"

namespace zrt::runtime::data {

// u16 below 65,500 ids, else i32: Megatron's rule.
TokenType token_type_for(int64_t vocabulary);

class IndexedDatasetWriter {
 public:
  // Makes missing folders. Throws DataError when a file cannot be written or the vocabulary exceeds 2^31 ids.
  // `with_counts`: writes which tokens count, too.
  IndexedDatasetWriter(const std::string& prefix, int64_t vocabulary, bool with_counts = false);

  // Adds tokens to the open document. Throws DataError for an id outside the vocabulary and for a document above
  // 2^31 - 1 tokens, the most the format can say.
  void append(std::span<const int32_t> tokens);
  // The same for a dataset with counts: 1 or 0 for each token.
  void append_counted(std::span<const int32_t> tokens, std::span<const uint8_t> counted);
  void end_document();

  int64_t documents() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t tokens() const { return tokens_; }
  std::optional<int64_t> counted_tokens() const;  // nothing without counts

  // Completes the temporary files; afterwards only publish() may be called. The open document must be ended.
  void seal(const std::optional<DatasetMeta>& meta = std::nullopt);
  // Makes the new files visible, with `meta` as PREFIX.meta.json; without one an old description is removed.
  void publish();

 private:
  IndexedDatasetWriter(const std::string& prefix, int64_t vocabulary, TokenType type);
  template <class T>
  void append_as(std::span<const int32_t> tokens);

  std::string prefix_;
  int64_t vocabulary_;
  TokenType type_;
  OutputFile bin_, idx_;
  std::optional<OutputFile> meta_;
  std::unique_ptr<IndexedDatasetWriter> counts_;
  std::vector<int32_t> lengths_;
  int64_t open_ = 0, tokens_ = 0, counted_ = 0;  // tokens of the open document, of all, and those that count
};

// Removes the index of PREFIX, if any, so that the pair cannot be read; then its description and its counts.
void retire_dataset(const std::string& prefix);

}  // namespace zrt::runtime::data

// A mask says which tokens of a dataset count. The pair PREFIX.counts.bin and .idx has it: bytes, 1 or 0, in the same
// documents.
// Training on conversations learns from what assistants say alone.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/token_documents.h"

namespace zrt::runtime::data {

class TokenMask {
 public:
  // Reads all of it; keeps a bit for each token and a number for every 512 and each document. Throws DataError naming
  // the file where it is of another dataset or holds other bytes.
  TokenMask(const std::string& prefix, const TokenDocuments& documents);

  bool counts(int64_t sequence, int64_t token) const;
  // Those of tokens [offset, offset + count) of a sequence that count; costs the same for every range.
  int64_t counted(int64_t sequence, int64_t offset, int64_t count) const;
  int64_t counted() const { return before(first_.back()); }
  std::string xxh3() const;

 private:
  int64_t before(int64_t token) const;  // those that count of the first tokens of all

  std::vector<int64_t> first_;  // token of each sequence, and of none behind the last
  std::vector<uint64_t> bits_;
  std::vector<int64_t> before_block_;  // those that count
};

// Null where there is no such pair: all tokens count.
std::unique_ptr<const TokenMask> open_mask(const std::string& prefix, const TokenDocuments& documents);

}  // namespace zrt::runtime::data

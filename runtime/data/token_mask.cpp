#include "runtime/data/token_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"
#include "runtime/data/indexed_dataset.h"
#include "runtime/data/llmc_dataset.h"

namespace zrt::runtime::data {
namespace {

constexpr int64_t word_tokens = 64, block_words = 8;
constexpr int64_t mask_chunk = int64_t{1} << 20;  // bytes, a multiple of a block's tokens

constexpr const char* remedy =
    "Build the dataset again, copy all its files again, or remove both files of the counts: then every token counts.";

// The lowest bits of eight bytes, each 0 or 1.
uint64_t low_bits(uint64_t bytes) {
  return (bytes * 0x0102040810204080u) >> 56;
}

}  // namespace

TokenMask::TokenMask(const std::string& prefix, const TokenDocuments& documents) {
  const IndexedDataset pair(counts_prefix(prefix));
  const std::string idx = idx_path(pair.prefix()), bin = bin_path(pair.prefix());
  if (pair.type() != TokenType::u8)
    throw core::DataError(fmt::format("{}: its type has the code {}; which tokens count is said by bytes (1, u8). {}",
                                      idx, static_cast<int>(pair.type()), remedy));
  if (pair.sequences() != documents.sequences())
    throw core::DataError(fmt::format("{}: it has {} sequences but {} has {}: it belongs to another dataset. {}", idx,
                                      pair.sequences(), documents.source(), documents.sequences(), remedy));
  first_.reserve(static_cast<size_t>(pair.sequences()) + 1);
  first_.push_back(0);
  for (int64_t i = 0; i < pair.sequences(); ++i) {
    if (pair.length(i) != documents.length(i))
      throw core::DataError(fmt::format("{}: sequence {} has {} tokens but {} in {}: it belongs to another dataset. {}",
                                        idx, i, pair.length(i), documents.length(i), documents.source(), remedy));
    first_.push_back(first_.back() + pair.length(i));
  }
  const core::InputFile file(bin);
  const int64_t tokens = first_.back();
  bits_.resize(static_cast<size_t>((tokens + word_tokens - 1) / word_tokens));
  std::vector<uint64_t> bytes(mask_chunk / 8);
  for (int64_t at = 0; at < tokens; at += mask_chunk) {
    const int64_t here = std::min(mask_chunk, tokens - at);
    std::fill(bytes.begin(), bytes.end(), 0);
    file.read(static_cast<uint64_t>(at), bytes.data(), static_cast<uint64_t>(here));
    for (int64_t i = 0; 8 * i < here; ++i) {
      if ((bytes[static_cast<size_t>(i)] & ~uint64_t{0x0101010101010101}) != 0) {
        const auto* each = reinterpret_cast<const uint8_t*>(bytes.data());
        const auto bad = std::find_if(each, each + here, [](uint8_t byte) { return byte > 1; });
        throw core::DataError(fmt::format("{}: byte {} is {}; legal are 1, where a token counts, and 0. {}", bin,
                                          at + (bad - each), *bad, remedy));
      }
      const int64_t token = at + 8 * i;
      bits_[static_cast<size_t>(token / word_tokens)] |= low_bits(bytes[static_cast<size_t>(i)])
                                                         << (token % word_tokens);
    }
  }
  int64_t sum = 0;
  for (size_t i = 0; i < bits_.size(); ++i) {
    if (i % block_words == 0) before_block_.push_back(sum);
    sum += std::popcount(bits_[i]);
  }
  before_block_.push_back(sum);
}

int64_t TokenMask::before(int64_t token) const {
  const int64_t word = token / word_tokens, block = word / block_words;
  int64_t sum = before_block_[static_cast<size_t>(block)];
  for (int64_t i = block * block_words; i < word; ++i) sum += std::popcount(bits_[static_cast<size_t>(i)]);
  const int64_t rest = token % word_tokens;
  if (rest > 0) sum += std::popcount(bits_[static_cast<size_t>(word)] << (word_tokens - rest));
  return sum;
}

bool TokenMask::counts(int64_t sequence, int64_t token) const {
  const int64_t at = first_[static_cast<size_t>(sequence)] + token;
  return (bits_[static_cast<size_t>(at / word_tokens)] >> (at % word_tokens) & 1) != 0;
}

int64_t TokenMask::counted(int64_t sequence, int64_t offset, int64_t count) const {
  const int64_t at = first_[static_cast<size_t>(sequence)] + offset;
  return before(at + count) - before(at);
}

std::string TokenMask::xxh3() const {
  core::Hash hash;
  hash.update(bits_.data(), bits_.size() * sizeof(uint64_t));
  return hash.hex();
}

std::unique_ptr<const TokenMask> open_mask(const std::string& prefix, const TokenDocuments& documents) {
  std::error_code failed;
  if (is_llmc_name(prefix) || !std::filesystem::exists(idx_path(counts_prefix(prefix)), failed)) return nullptr;
  return std::make_unique<const TokenMask>(prefix, documents);
}

}  // namespace zrt::runtime::data

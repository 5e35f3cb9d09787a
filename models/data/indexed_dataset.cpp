#include "models/data/indexed_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <type_traits>

#include "core/error.h"

namespace zrt::models::data {

using core::DataError;

namespace {

constexpr const char* rebuild = "Build the dataset again, or copy both files again.";

std::string index_of(const std::string& prefix) {
  const std::string path = idx_path(prefix);
  if (std::filesystem::exists(path)) return path;
  throw DataError(fmt::format(
      "{}: there is no such file. `zrt data build --out {} FILE…` makes a dataset of that prefix from text.", path,
      prefix));
}

template <class T>
void convert(const std::byte* source, int64_t count, int32_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const T value = load<T>(source, i);
    // A 64-bit value that does not fit becomes -1, which no vocabulary holds.
    if constexpr (std::is_same_v<T, int64_t>)
      out[i] = value == static_cast<int32_t>(value) ? static_cast<int32_t>(value) : -1;
    else
      out[i] = static_cast<int32_t>(value);
  }
}

void convert(TokenType type, const std::byte* source, int64_t count, int32_t* out) {
  switch (type) {
    case TokenType::u8:
      return convert<uint8_t>(source, count, out);
    case TokenType::i8:
      return convert<int8_t>(source, count, out);
    case TokenType::i16:
      return convert<int16_t>(source, count, out);
    case TokenType::u16:
      return convert<uint16_t>(source, count, out);
    case TokenType::i32:
      return convert<int32_t>(source, count, out);
    case TokenType::i64:
      return convert<int64_t>(source, count, out);
  }
}

int64_t raw_token(TokenType type, const std::byte* source) {
  if (type == TokenType::i64) return load<int64_t>(source);
  int32_t value = 0;
  convert(type, source, 1, &value);
  return value;
}

}  // namespace

IndexedDataset::IndexedDataset(const std::string& prefix)
    : prefix_(prefix), idx_(index_of(prefix)), bin_(bin_path(prefix)) {
  read_header();
  check_sequences();
  check_documents();
}

void IndexedDataset::read_header() {
  const std::string& path = idx_.path();
  const std::byte* header = idx_.data();
  if (idx_.size() < header_bytes)
    throw DataError(fmt::format("{}: the file is truncated: it has {} bytes and its header alone has {}. {}", path,
                                idx_.size(), header_bytes, rebuild));
  if (std::memcmp(header, magic, magic_bytes) != 0)
    throw DataError(fmt::format(
        "{}: this is not a dataset index: its first nine bytes are not MMIDIDX and two zeros. Name the prefix of a "
        ".bin/.idx pair made by `zrt data build` or by Megatron's preprocessing.",
        path));
  const auto version = load<uint64_t>(header + 9);
  if (version != format_version)
    throw DataError(
        fmt::format("{}: format version {} is not known; legal is {}. {}", path, version, format_version, rebuild));
  const auto code = load<uint8_t>(header + 17);
  if (code == 6 || code == 7)
    throw DataError(fmt::format(
        "{}: token type code {} is floating point, which cannot hold token ids; legal are 1 (u8), 2 (i8), 3 (i16), "
        "4 (i32), 5 (i64) and 8 (u16). Tokenize the text again with an integer type.",
        path, code));
  if (code < 1 || code > 8)
    throw DataError(fmt::format(
        "{}: token type code {} is not known; legal are 1 (u8), 2 (i8), 3 (i16), 4 (i32), 5 (i64) and 8 (u16). {}",
        path, code, rebuild));
  type_ = static_cast<TokenType>(code);

  // Hostile counts must not overflow: bound both by the bytes there are before multiplying.
  const auto n = load<uint64_t>(header + 18), d = load<uint64_t>(header + 26);
  const uint64_t rest = idx_.size() - header_bytes;
  if (n > rest / 12 || d > (rest - 12 * n) / 8)
    throw DataError(fmt::format(
        "{}: the file is truncated or corrupt: it announces {} sequences and {} document bounds but has only {} bytes. "
        "{}",
        path, n, d, idx_.size(), rebuild));
  const uint64_t extra = rest - 12 * n - 8 * d;
  if (extra != 0 && extra == n)
    throw DataError(fmt::format(
        "{}: it carries the sequence modes of a multimodal dataset; only text datasets, without modes, can be read.",
        path));
  if (extra != 0)
    throw DataError(
        fmt::format("{}: the file is corrupt: {} sequences and {} document bounds take {} bytes but it has {}. {}",
                    path, n, d, idx_.size() - extra, idx_.size(), rebuild));
  if (d == 0)
    throw DataError(
        fmt::format("{}: it has no document bounds; there must be one more than documents. {}", path, rebuild));
  sequences_ = static_cast<int64_t>(n);
  documents_ = static_cast<int64_t>(d) - 1;
  lengths_ = header + header_bytes;
  pointers_ = lengths_ + 4 * n;
  document_starts_ = pointers_ + 8 * n;
}

void IndexedDataset::check_sequences() {
  const auto bin_bytes = static_cast<int64_t>(bin_.size());
  int64_t end = 0;
  for (int64_t i = 0; i < sequences_; ++i) {
    const int32_t tokens = length(i);
    const auto pointer = load<int64_t>(pointers_, i);
    if (tokens < 0)
      throw DataError(fmt::format("{}: sequence {} has length {}; a length is 0 or more tokens. {}", idx_.path(), i,
                                  tokens, rebuild));
    if (pointer != end)
      throw DataError(fmt::format(
          "{}: sequence {} starts at byte {} of the .bin file; the sequences before it end at byte {}, and sequences "
          "must follow each other without gaps. {}",
          idx_.path(), i, pointer, end, rebuild));
    if (tokens > (bin_bytes - end) / token_bytes(type_))
      throw DataError(fmt::format("{}: the file is truncated: sequence {} of {} needs bytes {} to {} but it has {}. {}",
                                  bin_.path(), i, idx_.path(), end, end + tokens * token_bytes(type_), bin_bytes,
                                  rebuild));
    end += tokens * token_bytes(type_);
    tokens_ += tokens;
  }
  if (end != bin_bytes)
    throw DataError(fmt::format("{}: the file has {} bytes but the sequences of {} end at byte {}. {}", bin_.path(),
                                bin_bytes, idx_.path(), end, rebuild));
}

void IndexedDataset::check_documents() const {
  int64_t previous = 0;
  for (int64_t i = 0; i <= documents_; ++i) {
    const auto start = load<int64_t>(document_starts_, i);
    if (start < previous || start > sequences_ || (i == 0 && start != 0) || (i == documents_ && start != sequences_))
      throw DataError(fmt::format(
          "{}: document bound {} of {} is {}; the bounds start with 0, never fall and end with the number of "
          "sequences, {}. {}",
          idx_.path(), i, documents_ + 1, start, sequences_, rebuild));
    previous = start;
  }
}

void IndexedDataset::read(int64_t sequence, int64_t offset, int64_t count, int64_t vocabulary, int32_t* out) const {
  if (sequence < 0 || sequence >= sequences_)
    throw DataError(
        fmt::format("{}: sequence {} does not exist; legal are 0 to {}.", idx_.path(), sequence, sequences_ - 1));
  const int64_t tokens = length(sequence);
  if (offset < 0 || count < 0 || offset > tokens || count > tokens - offset)
    throw DataError(fmt::format("{}: {} tokens from {} leave sequence {}, which has {} tokens.", idx_.path(), count,
                                offset, sequence, tokens));
  const int64_t first = load<int64_t>(pointers_, sequence) + offset * token_bytes(type_);
  const std::byte* source = bin_.data() + first;
  convert(type_, source, count, out);

  // Seen as unsigned a negative id is huge, so one maximum finds every illegal id.
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, static_cast<uint32_t>(out[i]));
  if (count == 0 || largest < static_cast<uint64_t>(std::max<int64_t>(vocabulary, 0))) return;
  int64_t bad = 0;
  while (out[bad] >= 0 && out[bad] < vocabulary) ++bad;
  const int64_t place = bad * token_bytes(type_);
  throw DataError(fmt::format(
      "{}: token {} of sequence {} (byte {}) is {}; the model's vocabulary has {} ids, so legal are 0 to {}. Raise "
      "model.vocab or tokenize the text with the model's tokenizer.",
      bin_.path(), offset + bad, sequence, first + place, raw_token(type_, source + place), vocabulary,
      vocabulary - 1));
}

}  // namespace zrt::models::data

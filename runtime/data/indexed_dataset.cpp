#include "runtime/data/indexed_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <type_traits>

#include "core/error.h"

namespace zrt::runtime::data {

using core::DataError;

namespace {

constexpr const char* rebuild = "Build the dataset again, or copy both files again.";

// The path of the tokens. A prefix without an index is none.
std::string tokens_of(const std::string& prefix) {
  const std::string path = idx_path(prefix);
  if (std::filesystem::exists(path)) return bin_path(prefix);
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

}  // namespace

IndexedDataset::IndexedDataset(const std::string& prefix) : prefix_(prefix), bin_(tokens_of(prefix)) {
  const core::InputFile idx(idx_path(prefix));
  core::Hash hash;
  read_header(idx, hash);
  check_sequences(idx.path().string());
  check_documents(idx, hash);
  xxh3_ = hash.hex();
}

void IndexedDataset::read_header(const core::InputFile& idx, core::Hash& hash) {
  const std::string path = idx.path().string();
  if (idx.bytes() < header_bytes)
    throw DataError(fmt::format("{}: the file is truncated: it has {} bytes and its header alone has {}. {}", path,
                                idx.bytes(), header_bytes, rebuild));
  std::byte header[header_bytes];
  idx.read(0, header, header_bytes);
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
  const uint64_t rest = idx.bytes() - header_bytes;
  if (n > rest / 12 || d > (rest - 12 * n) / 8)
    throw DataError(fmt::format(
        "{}: the file is truncated or corrupt: it announces {} sequences and {} document bounds but has only {} bytes. "
        "{}",
        path, n, d, idx.bytes(), rebuild));
  const uint64_t extra = rest - 12 * n - 8 * d;
  if (extra != 0 && extra == n)
    throw DataError(fmt::format(
        "{}: it carries the sequence modes of a multimodal dataset; only text datasets, without modes, can be read.",
        path));
  if (extra != 0)
    throw DataError(
        fmt::format("{}: the file is corrupt: {} sequences and {} document bounds take {} bytes but it has {}. {}",
                    path, n, d, idx.bytes() - extra, idx.bytes(), rebuild));
  if (d == 0)
    throw DataError(
        fmt::format("{}: it has no document bounds; there must be one more than documents. {}", path, rebuild));
  documents_ = static_cast<int64_t>(d) - 1;
  lengths_.resize(n);
  pointers_.resize(n);
  idx.read(header_bytes, lengths_.data(), 4 * n);
  idx.read(header_bytes + 4 * n, pointers_.data(), 8 * n);
  hash.update(header, header_bytes);
  hash.update(lengths_.data(), 4 * n);
  hash.update(pointers_.data(), 8 * n);
}

void IndexedDataset::check_sequences(const std::string& idx) {
  const auto bin_bytes = static_cast<int64_t>(bin_.bytes());
  int64_t end = 0;
  for (int64_t i = 0; i < sequences(); ++i) {
    const int32_t tokens = length(i);
    const int64_t pointer = pointers_[static_cast<size_t>(i)];
    if (tokens < 0)
      throw DataError(
          fmt::format("{}: sequence {} has length {}; a length is 0 or more tokens. {}", idx, i, tokens, rebuild));
    if (pointer != end)
      throw DataError(fmt::format(
          "{}: sequence {} starts at byte {} of the .bin file; the sequences before it end at byte {}, and sequences "
          "must follow each other without gaps. {}",
          idx, i, pointer, end, rebuild));
    if (tokens > (bin_bytes - end) / token_bytes(type_))
      throw DataError(fmt::format("{}: the file is truncated: sequence {} of {} needs bytes {} to {} but it has {}. {}",
                                  bin_.path().string(), i, idx, end, end + tokens * token_bytes(type_), bin_bytes,
                                  rebuild));
    end += tokens * token_bytes(type_);
    tokens_ += tokens;
  }
  if (end != bin_bytes)
    throw DataError(fmt::format("{}: the file has {} bytes but the sequences of {} end at byte {}. {}",
                                bin_.path().string(), bin_bytes, idx, end, rebuild));
}

void IndexedDataset::check_documents(const core::InputFile& idx, core::Hash& hash) const {
  std::vector<int64_t> starts(static_cast<size_t>(std::min<int64_t>(documents_ + 1, 1 << 16)));
  const uint64_t begin = header_bytes + 12 * lengths_.size();
  int64_t previous = 0;
  for (int64_t i = 0; i <= documents_; ++i) {
    const auto place = static_cast<size_t>(i) % starts.size();
    if (place == 0) {
      const auto count = std::min<size_t>(starts.size(), static_cast<size_t>(documents_ + 1 - i));
      idx.read(begin + 8 * static_cast<uint64_t>(i), starts.data(), 8 * count);
      hash.update(starts.data(), 8 * count);
    }
    const int64_t start = starts[place];
    if (start < previous || start > sequences() || (i == 0 && start != 0) || (i == documents_ && start != sequences()))
      throw DataError(fmt::format(
          "{}: document bound {} of {} is {}; the bounds start with 0, never fall and end with the number of "
          "sequences, {}. {}",
          idx.path().string(), i, documents_ + 1, start, sequences(), rebuild));
    previous = start;
  }
}

void IndexedDataset::read_tokens(int64_t byte, int64_t count, int32_t* out) const {
  std::array<std::byte, 1 << 14> block;
  const int64_t most = static_cast<int64_t>(block.size()) / token_bytes(type_);
  while (count > 0) {
    const int64_t here = std::min(count, most), bytes = here * token_bytes(type_);
    bin_.read(static_cast<uint64_t>(byte), block.data(), static_cast<uint64_t>(bytes));
    convert(type_, block.data(), here, out);
    byte += bytes, out += here, count -= here;
  }
}

void IndexedDataset::read(int64_t sequence, int64_t offset, int64_t count, int64_t vocabulary, int32_t* out) const {
  if (sequence < 0 || sequence >= sequences())
    throw DataError(fmt::format("{}: sequence {} does not exist; legal are 0 to {}.", idx_path(prefix_), sequence,
                                sequences() - 1));
  const int64_t tokens = length(sequence);
  if (offset < 0 || count < 0 || offset > tokens || count > tokens - offset)
    throw DataError(fmt::format("{}: {} tokens from {} leave sequence {}, which has {} tokens.", idx_path(prefix_),
                                count, offset, sequence, tokens));
  const int64_t first = pointers_[static_cast<size_t>(sequence)] + offset * token_bytes(type_);
  read_tokens(first, count, out);

  // Seen as unsigned a negative id is huge, so one maximum finds every illegal id.
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, static_cast<uint32_t>(out[i]));
  if (count == 0 || largest < static_cast<uint64_t>(std::max<int64_t>(vocabulary, 0))) return;
  int64_t bad = 0;
  while (out[bad] >= 0 && out[bad] < vocabulary) ++bad;
  const int64_t place = first + bad * token_bytes(type_);
  int64_t id = out[bad];
  if (type_ == TokenType::i64) bin_.read(static_cast<uint64_t>(place), &id, sizeof id);  // it may not fit
  throw DataError(fmt::format(
      "{}: token {} of sequence {} (byte {}) is {}; the model's vocabulary has {} ids, so legal are 0 to {}. Raise "
      "model.vocab or tokenize the text with the model's tokenizer.",
      bin_.path().string(), offset + bad, sequence, place, id, vocabulary, vocabulary - 1));
}

}  // namespace zrt::runtime::data

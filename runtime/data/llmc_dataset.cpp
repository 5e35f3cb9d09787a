#include "runtime/data/llmc_dataset.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "runtime/data/indexed_format.h"
#include "runtime/data/text_reader.h"

namespace zrt::runtime::data {

using core::DataError;

namespace {

constexpr size_t llmc_header_bytes = 1024;
constexpr int64_t block_tokens = 4096;  // read at once

struct Kind {
  int32_t magic, version;
  int64_t token_bytes;
  uint32_t end_of_text;
};
constexpr Kind kinds[] = {{20240520, 1, 2, 50256}, {20240801, 7, 4, 128000}};

constexpr const char* pattern_characters = "*?[";

// The pattern without what it would mean in the names of folders that are there by just these names.
std::string with_literal_folders(const std::string& pattern) {
  std::string result;
  std::error_code failed;
  for (size_t at = 0; at < pattern.size();) {
    const size_t end = std::min(pattern.find('/', at), pattern.size());
    const bool literal = end < pattern.size() && std::filesystem::exists(pattern.substr(0, end), failed);
    for (const char c : pattern.substr(at, end - at)) {
      if (literal && (c == '\\' || std::strchr(pattern_characters, c) != nullptr)) result += '\\';
      result += c;
    }
    if (end < pattern.size()) result += '/';
    at = end + 1;
  }
  return result;
}

std::vector<std::string> matches(const std::string& pattern) {
  std::error_code failed;
  if (pattern.find_first_of(pattern_characters) == std::string::npos || std::filesystem::exists(pattern, failed))
    return {pattern};
  glob_t found{};
  const int code = ::glob(with_literal_folders(pattern).c_str(), GLOB_ERR, nullptr, &found);  // sorts
  const std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (code != 0 || paths.empty())
    throw DataError(fmt::format("{}: no file matches this pattern of token files.", pattern));
  return paths;
}

// The first numbers of a file.
struct Header {
  int32_t magic, version, tokens;
};

Header header_of(const core::InputFile& file) {
  if (file.bytes() < llmc_header_bytes)
    throw DataError(
        fmt::format("{}: the file is truncated: it has {} bytes and the header of a token file alone has {}. Of ids "
                    "without a header `zrt data import` makes a dataset.",
                    file.path().string(), file.bytes(), llmc_header_bytes));
  Header header{};
  file.read(0, &header, sizeof header);
  return header;
}

const Kind& kind_of(const Header& header, const std::string& path) {
  const auto [magic, version, tokens] = header;
  for (const Kind& kind : kinds) {
    if (kind.magic != magic) continue;
    if (kind.version == version) return kind;
    throw DataError(fmt::format("{}: version {} of token files with magic {} is not known; legal is {}.", path, version,
                                magic, kind.version));
  }
  throw DataError(fmt::format(
      "{}: this is not an llm.c token file: it starts with {}; legal are {} (GPT-2) and {} (Llama 3). For a Megatron "
      "pair name the prefix, without .bin; of ids without a header, such as nanoGPT's, `zrt data import` makes one.",
      path, magic, kinds[0].magic, kinds[1].magic));
}

}  // namespace

bool is_llmc_name(const std::string& name) {
  return has_suffix(name, ".bin");
}

bool is_llmc_magic(int32_t number) {
  return std::any_of(std::begin(kinds), std::end(kinds), [&](const Kind& kind) { return kind.magic == number; });
}

LlmcDataset::LlmcDataset(const std::string& pattern) : pattern_(pattern) {
  core::Hash hash;
  for (const std::string& path : matches(pattern)) add_shard(path, hash);
  xxh3_ = hash.hex();
}

void LlmcDataset::read_tokens(const core::InputFile& shard, int64_t first, std::span<uint32_t> out) const {
  const uint64_t byte = llmc_header_bytes + static_cast<uint64_t>(first * token_bytes_);
  if (token_bytes_ == 4) return shard.read(byte, out.data(), out.size_bytes());
  std::array<uint16_t, block_tokens> block;
  shard.read(byte, block.data(), 2 * out.size());
  std::copy_n(block.begin(), out.size(), out.begin());
}

void LlmcDataset::add_shard(const std::string& path, core::Hash& hash) {
  const core::InputFile& file = shards_.emplace_back(path);
  const Header header = header_of(file);
  const Kind& kind = kind_of(header, path);
  if (token_bytes_ != 0 && token_bytes_ != kind.token_bytes)
    throw DataError(
        fmt::format("{}: its tokens have {} bytes but those of {} have {}; they are of different tokenizers.", path,
                    kind.token_bytes, shards_.front().path().string(), token_bytes_));
  token_bytes_ = kind.token_bytes;
  const int32_t count = header.tokens;
  const auto expected = static_cast<int64_t>(llmc_header_bytes) + int64_t{count} * token_bytes_;
  if (count < 0 || expected != static_cast<int64_t>(file.bytes()))
    throw DataError(
        fmt::format("{}: the file is truncated or corrupt: its header announces {} tokens, which take {} bytes, but it "
                    "has {}. Copy "
                    "it again.",
                    path, count, expected, file.bytes()));
  const auto shard = static_cast<int32_t>(shards_.size()) - 1;
  int64_t first = 0;
  const auto end_document = [&](int64_t end) {
    documents_.push_back({shard, static_cast<int32_t>(first), static_cast<int32_t>(end - first)});
    first = end;
  };
  std::array<uint32_t, block_tokens> block;
  for (int64_t at = 0; at < count; at += block_tokens) {
    const std::span<uint32_t> tokens(block.data(), static_cast<size_t>(std::min<int64_t>(block_tokens, count - at)));
    read_tokens(file, at, tokens);
    hash.update(tokens.data(), tokens.size_bytes());
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int64_t place = at + static_cast<int64_t>(i);
      if (place > 0 && tokens[i] == kind.end_of_text) end_document(place);
    }
  }
  if (count > 0) end_document(count);
  tokens_ += count;
}

void LlmcDataset::read(int64_t sequence, int64_t offset, int64_t count, int64_t vocabulary, int32_t* out) const {
  if (sequence < 0 || sequence >= sequences())
    throw DataError(
        fmt::format("{}: document {} does not exist; legal are 0 to {}.", pattern_, sequence, sequences() - 1));
  const Document& document = documents_[static_cast<size_t>(sequence)];
  const core::InputFile& shard = shards_[static_cast<size_t>(document.shard)];
  if (offset < 0 || count < 0 || offset > document.tokens || count > document.tokens - offset)
    throw DataError(fmt::format("{}: {} tokens from {} leave document {}, which has {} tokens.", shard.path().string(),
                                count, offset, sequence, document.tokens));
  std::array<uint32_t, block_tokens> block;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = i % block_tokens, first = document.first + offset + i;
    if (place == 0)
      read_tokens(shard, first, {block.data(), static_cast<size_t>(std::min<int64_t>(block_tokens, count - i))});
    const uint32_t id = block[static_cast<size_t>(place)];
    if (id >= static_cast<uint64_t>(std::max<int64_t>(vocabulary, 0)))
      throw DataError(fmt::format(
          "{}: token {} is {}; the model's vocabulary has {} ids, so legal are 0 to {}. Raise model.vocab or tokenize "
          "the text with the model's tokenizer.",
          shard.path().string(), first, id, vocabulary, vocabulary - 1));
    out[i] = static_cast<int32_t>(id);
  }
}

}  // namespace zrt::runtime::data

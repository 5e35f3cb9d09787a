#include "models/data/llmc_dataset.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>

#include "core/error.h"
#include "models/data/indexed_format.h"
#include "models/data/text_reader.h"

namespace zrt::models::data {

using core::DataError;

namespace {

constexpr size_t llmc_header_bytes = 1024;

struct Kind {
  int32_t magic, version;
  int64_t token_bytes;
  uint32_t end_of_text;
};
constexpr Kind kinds[] = {{20240520, 1, 2, 50256}, {20240801, 7, 4, 128000}};

std::vector<std::string> matches(const std::string& pattern) {
  if (pattern.find_first_of("*?[") == std::string::npos) return {pattern};
  glob_t found{};
  const int code = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);  // sorts
  const std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (code != 0 || paths.empty())
    throw DataError(fmt::format("{}: no file matches this pattern of token files.", pattern));
  return paths;
}

const Kind& kind_of(const MappedFile& file) {
  if (file.size() < llmc_header_bytes)
    throw DataError(
        fmt::format("{}: the file is truncated: it has {} bytes and the header of a token file alone has {}.",
                    file.path(), file.size(), llmc_header_bytes));
  const auto magic = load<int32_t>(file.data()), version = load<int32_t>(file.data(), 1);
  for (const Kind& kind : kinds) {
    if (kind.magic != magic) continue;
    if (kind.version == version) return kind;
    throw DataError(fmt::format("{}: version {} of token files with magic {} is not known; legal is {}.", file.path(),
                                version, magic, kind.version));
  }
  throw DataError(fmt::format(
      "{}: this is not an llm.c token file: it starts with {}; legal are {} (GPT-2) and {} (Llama 3). For a Megatron "
      "pair name the prefix, without .bin.",
      file.path(), magic, kinds[0].magic, kinds[1].magic));
}

}  // namespace

bool is_llmc_name(const std::string& name) {
  return has_suffix(name, ".bin");
}

LlmcDataset::LlmcDataset(const std::string& pattern) : pattern_(pattern) {
  for (const std::string& path : matches(pattern)) add_shard(path);
}

uint32_t LlmcDataset::token(const MappedFile& shard, int64_t index) const {
  const std::byte* tokens = shard.data() + llmc_header_bytes;
  return token_bytes_ == 2 ? load<uint16_t>(tokens, index) : load<uint32_t>(tokens, index);
}

void LlmcDataset::add_shard(const std::string& path) {
  shards_.push_back(std::make_unique<MappedFile>(path));
  const MappedFile& file = *shards_.back();
  const Kind& kind = kind_of(file);
  if (token_bytes_ != 0 && token_bytes_ != kind.token_bytes)
    throw DataError(
        fmt::format("{}: its tokens have {} bytes but those of {} have {}; they are of different tokenizers.", path,
                    kind.token_bytes, shards_.front()->path(), token_bytes_));
  token_bytes_ = kind.token_bytes;
  const auto count = load<int32_t>(file.data(), 2);
  const auto expected = static_cast<int64_t>(llmc_header_bytes) + int64_t{count} * token_bytes_;
  if (count < 0 || expected != static_cast<int64_t>(file.size()))
    throw DataError(
        fmt::format("{}: the file is truncated or corrupt: its header announces {} tokens, which take {} bytes, but it "
                    "has {}. Copy "
                    "it again.",
                    path, count, expected, file.size()));
  const auto shard = static_cast<int32_t>(shards_.size()) - 1;
  int64_t first = 0;
  for (int64_t i = 1; i <= count; ++i) {
    if (i < count && token(file, i) != kind.end_of_text) continue;
    documents_.push_back({shard, static_cast<int32_t>(first), static_cast<int32_t>(i - first)});
    first = i;
  }
  tokens_ += count;
}

void LlmcDataset::read(int64_t sequence, int64_t offset, int64_t count, int64_t vocabulary, int32_t* out) const {
  if (sequence < 0 || sequence >= sequences())
    throw DataError(
        fmt::format("{}: document {} does not exist; legal are 0 to {}.", pattern_, sequence, sequences() - 1));
  const Document& document = documents_[static_cast<size_t>(sequence)];
  const MappedFile& shard = *shards_[static_cast<size_t>(document.shard)];
  if (offset < 0 || count < 0 || offset > document.tokens || count > document.tokens - offset)
    throw DataError(fmt::format("{}: {} tokens from {} leave document {}, which has {} tokens.", shard.path(), count,
                                offset, sequence, document.tokens));
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t id = token(shard, document.first + offset + i);
    if (id >= static_cast<uint64_t>(std::max<int64_t>(vocabulary, 0)))
      throw DataError(fmt::format(
          "{}: token {} is {}; the model's vocabulary has {} ids, so legal are 0 to {}. Raise model.vocab or tokenize "
          "the text with the model's tokenizer.",
          shard.path(), document.first + offset + i, id, vocabulary, vocabulary - 1));
    out[i] = static_cast<int32_t>(id);
  }
}

}  // namespace zrt::models::data

#include "runtime/data/indexed_dataset_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "core/error.h"

namespace zrt::runtime::data {

using core::DataError;

namespace {

// Called before the files are opened: makes the folder they lie in.
const std::string& make_folder(const std::string& prefix) {
  const std::filesystem::path path(prefix);
  if (path.filename().empty())
    throw DataError(fmt::format("'{}' cannot be the prefix of a dataset: it must end in a file name.", prefix));
  std::error_code failed;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failed);
  if (failed)
    throw DataError(fmt::format("{}: cannot make this folder: {}.", path.parent_path().string(), failed.message()));
  return prefix;
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    throw DataError(fmt::format("{}: cannot replace it: {}.", path, std::strerror(errno)));
}

template <class T>
void put(OutputFile& file, T value) {
  file.write(&value, sizeof(value));
}

}  // namespace

TokenType token_type_for(int64_t vocabulary) {
  return vocabulary < 65500 ? TokenType::u16 : TokenType::i32;
}

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, int64_t vocabulary, bool with_counts)
    : IndexedDatasetWriter(prefix, vocabulary, token_type_for(vocabulary)) {
  if (with_counts) counts_.reset(new IndexedDatasetWriter(counts_prefix(prefix), 2, TokenType::u8));
}

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, int64_t vocabulary, TokenType type)
    : prefix_(make_folder(prefix)),
      vocabulary_(vocabulary),
      type_(type),
      bin_(bin_path(prefix)),
      idx_(idx_path(prefix)) {
  if (vocabulary < 1 || vocabulary > int64_t{1} << 31)
    throw DataError(
        fmt::format("{}: a vocabulary of {} ids cannot be stored; legal are 1 to 2147483648.", prefix, vocabulary));
}

template <class T>
void IndexedDatasetWriter::append_as(std::span<const int32_t> tokens) {
  T block[1024];
  for (size_t done = 0; done < tokens.size();) {
    const size_t count = std::min(tokens.size() - done, std::size(block));
    for (size_t i = 0; i < count; ++i) {
      const int32_t id = tokens[done + i];
      if (id < 0 || id >= vocabulary_)
        throw DataError(fmt::format("{}: token id {} of document {} is outside the vocabulary; legal are 0 to {}.",
                                    bin_.path(), id, documents(), vocabulary_ - 1));
      block[i] = static_cast<T>(id);
    }
    bin_.write(block, count * sizeof(T));
    done += count;
  }
}

void IndexedDatasetWriter::append(std::span<const int32_t> tokens) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (open_ + static_cast<int64_t>(tokens.size()) > most)
    throw DataError(fmt::format(
        "{}: document {} has more than {} tokens, the most the format can say. Split it, for example into paragraphs.",
        bin_.path(), documents(), most));
  if (type_ == TokenType::u8)
    append_as<uint8_t>(tokens);
  else if (type_ == TokenType::u16)
    append_as<uint16_t>(tokens);
  else
    append_as<int32_t>(tokens);
  open_ += static_cast<int64_t>(tokens.size());
}

void IndexedDatasetWriter::append_counted(std::span<const int32_t> tokens, std::span<const uint8_t> counted) {
  append(tokens);
  counts_->append(std::vector<int32_t>(counted.begin(), counted.end()));
  counted_ += std::count(counted.begin(), counted.end(), 1);
}

std::optional<int64_t> IndexedDatasetWriter::counted_tokens() const {
  return counts_ ? std::optional(counted_) : std::nullopt;
}

void IndexedDatasetWriter::end_document() {
  if (counts_) counts_->end_document();
  lengths_.push_back(static_cast<int32_t>(open_));
  tokens_ += open_;
  open_ = 0;
}

void IndexedDatasetWriter::seal(const std::optional<DatasetMeta>& meta) {
  if (open_ != 0)
    throw DataError(fmt::format("{}: document {} was not ended before the dataset.", bin_.path(), documents()));
  const auto count = static_cast<uint64_t>(lengths_.size());
  idx_.write(magic, magic_bytes);
  put(idx_, format_version);
  put(idx_, static_cast<uint8_t>(type_));
  put(idx_, count);
  put(idx_, count + 1);
  idx_.write(lengths_.data(), lengths_.size() * sizeof(int32_t));
  int64_t pointer = 0;
  for (const int32_t length : lengths_) {
    put(idx_, pointer);
    pointer += length * token_bytes(type_);
  }
  for (uint64_t i = 0; i <= count; ++i) put(idx_, static_cast<int64_t>(i));
  bin_.seal();
  idx_.seal();
  if (counts_) counts_->seal();
  if (!meta) return;
  const std::string text = to_json(*meta);
  meta_.emplace(meta_path(prefix_));
  meta_->write(text.data(), text.size());
  meta_->seal();
}

void IndexedDatasetWriter::publish() {
  retire_dataset(prefix_);
  bin_.publish();
  if (counts_) counts_->publish();
  if (meta_) meta_->publish();
  sync_folder_of(bin_.path());  // the index must not reach the disk before the tokens do
  idx_.publish();
  sync_folder_of(bin_.path());
}

void retire_dataset(const std::string& prefix) {
  remove_file(idx_path(prefix));
  remove_file(meta_path(prefix));
  remove_file(idx_path(counts_prefix(prefix)));
  remove_file(bin_path(counts_prefix(prefix)));
  sync_folder_of(prefix);
}

}  // namespace zrt::runtime::data

#include "runtime/data/part_writer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <span>

namespace zrt::runtime::data {

double unigram_entropy(const ByteCounts& counts) {
  const auto bytes = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  double bits = 0;
  for (const int64_t count : counts) {
    const double p = static_cast<double>(count) / static_cast<double>(std::max<int64_t>(bytes, 1));
    if (count > 0) bits -= p * std::log2(p);
  }
  return std::max(bits, 0.0);  // not -0
}

PartWriter::PartWriter(std::string prefix, TextCoder coder, bool conversations)
    : prefix_(std::move(prefix)),
      coder_(std::move(coder)),
      conversations_(conversations),
      writer_(prefix_, coder_.tokenizer().vocab_size(), conversations) {}

void PartWriter::add(const Encoded& batch) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += batch.counts[i];
  bytes_ += static_cast<int64_t>(batch.text.size());
  size_t at = 0;
  for (size_t i = 0; i < batch.id_ends.size(); ++i) {
    const size_t count = batch.id_ends[i] - at;
    const std::span ids = std::span(batch.ids).subspan(at, count);
    if (!open_ && !conversations_) writer_.append(coder_.before());
    if (conversations_)
      writer_.append_counted(ids, std::span(batch.counted).subspan(at, count));
    else
      writer_.append(ids);
    at = batch.id_ends[i];
    open_ = batch.open && i + 1 == batch.id_ends.size();
    if (open_) return;
    if (!conversations_) writer_.append(coder_.behind_document());
    writer_.end_document();
  }
}

BuiltPart PartWriter::seal(const std::string& language, const std::string& tokenizer_file) {
  DatasetMeta meta;
  const Tokenizer& tokenizer = coder_.tokenizer();
  meta.tokenizer = tokenizer.name();
  meta.tokenizer_xxh3 = tokenizer.xxh3();
  if (!tokenizer.model().empty()) meta.tokenizer_file = std::filesystem::path(tokenizer_file).filename().string();
  meta.tokenizer_eod = tokenizer.eod_text();
  meta.templated = coder_.with_template();
  meta.language = language;
  meta.vocabulary = tokenizer.vocab_size();
  meta.documents = writer_.documents();
  meta.tokens = writer_.tokens();
  meta.counted_tokens = writer_.counted_tokens();
  meta.bytes = bytes_;
  meta.unigram_entropy = unigram_entropy(counts_);
  writer_.seal(meta);
  return {prefix_, meta};
}

}  // namespace zrt::runtime::data

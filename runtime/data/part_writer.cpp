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

PartWriter::PartWriter(std::string prefix, const Tokenizer& tokenizer)
    : prefix_(std::move(prefix)), tokenizer_(tokenizer), writer_(prefix_, tokenizer.vocab_size()) {}

void PartWriter::add(const Encoded& batch) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += batch.counts[i];
  bytes_ += static_cast<int64_t>(batch.text.size());
  const int32_t eod = tokenizer_.eod();
  size_t at = 0;
  for (size_t i = 0; i < batch.id_ends.size(); ++i) {
    writer_.append(std::span(batch.ids).subspan(at, batch.id_ends[i] - at));
    at = batch.id_ends[i];
    if (batch.open && i + 1 == batch.id_ends.size()) return;
    writer_.append(std::span(&eod, 1));
    writer_.end_document();
  }
}

BuiltPart PartWriter::seal(const std::string& language, const std::string& tokenizer_file) {
  DatasetMeta meta;
  meta.tokenizer = tokenizer_.name();
  meta.tokenizer_xxh3 = tokenizer_.xxh3();
  if (!tokenizer_.model().empty()) meta.tokenizer_file = std::filesystem::path(tokenizer_file).filename().string();
  meta.tokenizer_eod = tokenizer_.eod_text();
  meta.language = language;
  meta.vocabulary = tokenizer_.vocab_size();
  meta.documents = writer_.documents();
  meta.tokens = writer_.tokens();
  meta.bytes = bytes_;
  meta.unigram_entropy = unigram_entropy(counts_);
  writer_.seal(meta);
  return {prefix_, meta};
}

}  // namespace zrt::runtime::data

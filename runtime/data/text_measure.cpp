#include "runtime/data/text_measure.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace zrt::runtime::data {

void TextMeasure::add(std::span<const int32_t> ids) {
  while (!ids.empty()) {
    const auto end = std::find(ids.begin(), ids.end(), tokenizer_.eod());
    const auto count = static_cast<size_t>(end - ids.begin());
    for (const char c : tokenizer_.decode(ids.first(count))) ++counts_[static_cast<unsigned char>(c)];
    ids = ids.subspan(std::min(count + 1, ids.size()));
  }
}

DatasetMeta TextMeasure::meta(const std::string& language, const std::string& tokenizer_file, int64_t documents,
                              int64_t tokens) const {
  DatasetMeta meta;
  meta.tokenizer = tokenizer_.name();
  meta.tokenizer_xxh3 = tokenizer_.xxh3();
  if (!tokenizer_.model().empty()) meta.tokenizer_file = std::filesystem::path(tokenizer_file).filename().string();
  meta.tokenizer_eod = tokenizer_.eod_text();
  meta.language = language;
  meta.vocabulary = tokenizer_.vocab_size();
  meta.documents = documents;
  meta.tokens = tokens;
  meta.bytes = std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
  meta.unigram_entropy = unigram_entropy(counts_);
  return meta;
}

size_t first_illegal(std::span<const int32_t> ids, int64_t vocabulary) {
  // Seen as unsigned a negative id is huge.
  return static_cast<size_t>(
      std::find_if(ids.begin(), ids.end(),
                   [&](int32_t id) { return static_cast<uint32_t>(id) >= static_cast<uint64_t>(vocabulary); }) -
      ids.begin());
}

}  // namespace zrt::runtime::data

#include "runtime/data/text_measure.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace zrt::runtime::data {

void TextMeasure::add(std::span<const int32_t> ids) {
  while (!ids.empty()) {
    const auto end = std::find(ids.begin(), ids.end(), tokenizer_.eod());
    const auto count = static_cast<size_t>(end - ids.begin());
    held_.insert(held_.end(), ids.begin(), end);
    if (count < ids.size()) {
      end_document();
    } else if (held_.size() >= enough_) {
      if (const size_t part = part_end(); part > 0) measure(part);
      enough_ = std::max(part_ids, 2 * held_.size());
    }
    ids = ids.subspan(std::min(count + 1, ids.size()));
  }
}

void TextMeasure::end_document() {
  if (held_.empty() && before_.empty()) return;
  measure(held_.size());
  before_.clear();
  enough_ = part_ids;
}

// Most of what is held, up to the begin of a word; 0 where none begins.
size_t TextMeasure::part_end() const {
  if (tokenizer_.bytewise()) return held_.size();
  for (size_t at = held_.size() - 1; at > held_.size() / 2; --at)
    if (tokenizer_.word_part(held_[at]) == WordPart::begins) return at;
  return 0;
}

void TextMeasure::measure(size_t count) {
  if (before_.empty()) {
    const std::vector<int32_t>& around = tokenizer_.before_text();
    ++documents_;
    templated_ += !around.empty() && count >= around.size() && std::equal(around.begin(), around.end(), held_.begin());
  }
  // The begin of a text may decode otherwise than its middle: the part's text is what it adds to the ids before it.
  std::vector<int32_t> ids = before_;
  ids.insert(ids.end(), held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(count));
  this->count(ids, 1);
  this->count(before_, -1);
  before_.assign(ids.end() - static_cast<std::ptrdiff_t>(std::min(ids.size(), context_ids)), ids.end());
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(count));
}

void TextMeasure::count(std::span<const int32_t> ids, int64_t sign) {
  for (const char c : tokenizer_.decode(ids)) counts_[static_cast<unsigned char>(c)] += sign;
}

DatasetMeta TextMeasure::meta(const std::string& language, const std::string& tokenizer_file, int64_t documents,
                              int64_t tokens) const {
  DatasetMeta meta;
  meta.tokenizer = tokenizer_.name();
  meta.tokenizer_xxh3 = tokenizer_.xxh3();
  if (!tokenizer_.model().empty()) meta.tokenizer_file = std::filesystem::path(tokenizer_file).filename().string();
  meta.tokenizer_eod = tokenizer_.eod_text();
  meta.templated = documents_ > 0 && templated_ == documents_;
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

#include "runtime/data/duplicates.h"

#include <xxhash.h>

namespace zrt::runtime::data {

std::string normalised_document(std::string_view document) {
  std::string text;
  size_t kept = 0;  // behind the last character that is not blank
  for (size_t i = 0; i < document.size(); ++i) {
    char c = document[i];
    const bool blank = c == ' ' || c == '\t' || c == '\f' || c == '\v';
    if (c == '\r') {
      if (i + 1 < document.size() && document[i + 1] == '\n') continue;
      c = '\n';
    }
    if (c == '\n') {
      // Blanks at the end of a line go; so do blank lines at the start.
      while (text.size() > kept && text.back() != '\n') text.pop_back();
      if (kept == 0) {
        text.clear();
        continue;
      }
    }
    text += c;
    if (c != '\n' && !blank) kept = text.size();
  }
  text.resize(kept);
  return text;
}

bool DuplicateFinder::seen(std::string_view document) {
  const std::string text = normalised_document(document);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  Key key{hash.low64, hash.high64};
  if (key == Key{}) key.low = 1;
  if (4 * (count_ + 1) > 3 * table_.size()) grow();
  return !insert(key);
}

// False when the key is there already.
bool DuplicateFinder::insert(Key key) {
  for (size_t at = key.low & (table_.size() - 1);; at = (at + 1) & (table_.size() - 1)) {
    if (table_[at] == key) return false;
    if (table_[at] != Key{}) continue;
    table_[at] = key;
    ++count_;
    return true;
  }
}

void DuplicateFinder::grow() {
  std::vector<Key> old(table_.empty() ? 1024 : 2 * table_.size());
  old.swap(table_);
  count_ = 0;
  for (const Key& key : old)
    if (key != Key{}) insert(key);
}

}  // namespace zrt::runtime::data

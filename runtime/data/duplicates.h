// Finds documents that occurred before, by XXH3-128 of the normalised document. Two different documents are taken for
// the same with a probability of about n² / 2^129 for n documents.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zrt::runtime::data {

// A document without what does not change its text: line ends as \n, no spaces, tabs or other blanks at the ends of
// lines, no blank lines at its start and end.
std::string normalised_document(std::string_view document);

// Holds 16 bytes for each different document, in a table that is at most three quarters full.
class DuplicateFinder {
 public:
  // True where an equal document was asked about before.
  bool seen(std::string_view document);

 private:
  struct Key {
    uint64_t low = 0, high = 0;
    bool operator==(const Key&) const = default;
  };
  bool insert(Key key);
  void grow();

  std::vector<Key> table_;  // {0, 0} is free
  size_t count_ = 0;
};

}  // namespace zrt::runtime::data

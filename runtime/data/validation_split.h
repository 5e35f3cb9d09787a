// Chooses the part of a text that becomes validation data, by the documents' sizes and order alone.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace zrt::runtime::data {

struct ValidationSplit {
  // True: whole documents, drawn at random with a fixed seed, go to validation. False, when the documents are too few
  // or too unequal for that: the end of every document does, cut at a line.
  bool by_document = false;
  std::vector<uint8_t> chosen;  // by_document: 1 for a validation document
};

// `sizes` in bytes; 0 < fraction < 1.
ValidationSplit split_documents(const std::vector<int64_t>& sizes, double fraction);

// Returns how many bytes of a document stay for training when the last `fraction` of it goes to validation. The cut is
// the line start nearest to the exact place, within half of the part cut off; else the start of a UTF-8 character.
size_t cut_document(std::string_view document, double fraction);

}  // namespace zrt::runtime::data

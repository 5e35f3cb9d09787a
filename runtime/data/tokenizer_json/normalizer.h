// Rewrites a text before it is cut: one subclass for each type of normalizer.
#pragma once
#include <memory>
#include <string>

#include "runtime/data/tokenizer_json/fields.h"

namespace zrt::runtime::data::tokenizer_json {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(std::string& text) const = 0;  // well-formed UTF-8 before and after
};

// Throws DataError naming the type where there is no such normalizer.
std::unique_ptr<Normalizer> read_normalizer(Fields fields);

// "Precompiled": SentencePiece's rules in a double array (charsmap.cpp).
std::unique_ptr<Normalizer> read_charsmap(Fields& fields);
// "BertNormalizer", "Lowercase", "StripAccents", "Strip" and "Nmt" (character_normalizers.cpp), or nullptr.
std::unique_ptr<Normalizer> read_character_normalizer(const std::string& type, Fields& fields);

}  // namespace zrt::runtime::data::tokenizer_json

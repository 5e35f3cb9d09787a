// Turns tokens into text again: one subclass for each type of decoder.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/tokenizer_json/fields.h"

namespace zrt::runtime::data::tokenizer_json {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Rewrites the texts of tokens, which in the end stand one behind the other. They may be any bytes.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

// Throws DataError naming the type where there is no such decoder.
std::unique_ptr<Decoder> read_decoder(Fields fields);
// Stands in where a file names none: a space between tokens.
std::unique_ptr<Decoder> spaced_decoder();

}  // namespace zrt::runtime::data::tokenizer_json

// Turns a piece of text into ids: one subclass for each type of model.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/data/tokenizer_json/scratch.h"
#include "runtime/data/tokenizer_json/vocabulary.h"

namespace zrt::runtime::data::tokenizer_json {

class Model {
 public:
  virtual ~Model() = default;

  // Appends the ids of `piece`, which is not empty. Throws DataError where it has no ids and the model none for unknown
  // text.
  virtual void encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
    encode_word(piece, scratch, out);
  }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // The id that stands for a byte that is no UTF-8; -1 for none.
  virtual int32_t byte_id(uint8_t) const { return -1; }
  // The prefix of tokens that go on with a word; "" where words are not marked so.
  virtual std::string_view continuing_prefix() const { return {}; }

 protected:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  // Encodes a word with the help of the cache.
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  virtual void find_ids(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const = 0;

  Vocabulary vocabulary_;
};

// `raw_bytes`: pieces come as bytes, which the vocabulary writes as the characters of byte_level.h. Throws DataError
// naming the type where there is no such model.
std::unique_ptr<Model> read_model(Fields fields, bool raw_bytes);
// True if the model can take bytes for their characters.
bool takes_raw_bytes(Fields fields);

std::unique_ptr<Model> read_bpe(Fields& fields, bool raw_bytes);
std::unique_ptr<Model> read_unigram(Fields& fields);
std::unique_ptr<Model> read_word_piece(Fields& fields);
std::unique_ptr<Model> read_word_level(Fields& fields);

}  // namespace zrt::runtime::data::tokenizer_json

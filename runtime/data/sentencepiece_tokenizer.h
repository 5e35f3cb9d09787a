// A SentencePiece model (Kudo and Richardson 2018) that keeps every byte of a text.
//
// SentencePiece sees well-formed UTF-8 without U+2581, its sign for a space, in runs of at most 64 KiB that end with a
// line where one ends. All other bytes become byte pieces. No normalisation is applied, whatever the model says, so
// that decode(encode(x)) == x and bits per byte count the text's own bytes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/tokenizer.h"

namespace zrt::runtime::data {

class SentencePieceTokenizer : public Tokenizer {
 public:
  // `model`: the bytes of a .model file; `source` names it in messages. Throws DataError when they are truncated,
  // corrupt, or a model without byte pieces, which cannot hold every text.
  SentencePieceTokenizer(std::string model, std::string source);
  ~SentencePieceTokenizer() override;
  static std::unique_ptr<SentencePieceTokenizer> open(const std::string& path);

  const std::string& name() const override;
  int64_t vocab_size() const override;  // the model's pieces and, if that is not among them, end-of-document
  int32_t eod() const override;         // the model's </s> if it is a control piece, else an id of its own
  WordPart word_part(int32_t token) const override { return word_part_of(text_of(token)); }
  std::string_view model() const override;
  const std::string& xxh3() const override;

  // Throws DataError when the model's pieces do not give the text back, which only a crafted model can do.
  void encode(std::string_view document, std::vector<int32_t>& out) const override;
  // A model with a dummy prefix begins documents with a space of its own, which is taken off again.
  std::string decode(std::span<const int32_t> tokens) const override;

 private:
  void encode_run(std::string_view run, std::vector<int32_t>& out) const;
  const std::string& text_of(int32_t id) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zrt::runtime::data

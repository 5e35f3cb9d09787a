#include "runtime/data/tokenizer_json/normalizer.h"

#include <vector>

#include "runtime/data/tokenizer_json/byte_level.h"
#include "runtime/data/tokenizer_json/pattern.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

class Normal : public Normalizer {
 public:
  explicit Normal(NormalForm form) : form_(form) {}
  void apply(std::string& text) const override { normalize(form_, text); }

 private:
  NormalForm form_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::string& text) const override { pattern_.replace(text, content_); }

 private:
  Pattern pattern_;
  std::string content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, text_);
  }

 private:
  std::string text_;
};

class ByteCharacters : public Normalizer {
 public:
  void apply(std::string& text) const override {
    std::string out;
    append_byte_characters(out, text);
    text = std::move(out);
  }
};

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  void apply(std::string& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

std::unique_ptr<Normalizer> read_normalizer_sequence(Fields& fields) {
  std::vector<std::unique_ptr<Normalizer>> parts;
  for (Fields& part : fields.list("normalizers")) parts.push_back(read_normalizer(std::move(part)));
  return std::make_unique<SequenceNormalizer>(std::move(parts));
}

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(Fields fields) {
  const std::string type = fields.text("type");
  std::unique_ptr<Normalizer> made;
  if (type == "NFC") made = std::make_unique<Normal>(NormalForm::nfc);
  if (type == "NFD") made = std::make_unique<Normal>(NormalForm::nfd);
  if (type == "NFKC") made = std::make_unique<Normal>(NormalForm::nfkc);
  if (type == "NFKD") made = std::make_unique<Normal>(NormalForm::nfkd);
  if (type == "Prepend") made = std::make_unique<Prepend>(fields.text("prepend"));
  if (type == "ByteLevel") made = std::make_unique<ByteCharacters>();
  if (type == "Precompiled") made = read_charsmap(fields);
  if (type == "Sequence") made = read_normalizer_sequence(fields);
  if (type == "Replace") {
    Pattern pattern(fields, "pattern");
    made = std::make_unique<ReplaceNormalizer>(std::move(pattern), fields.text("content"));
  }
  if (!made) made = read_character_normalizer(type, fields);
  if (!made)
    fields.refuse("type",
                  "zrt knows the normalizers NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, Prepend, "
                  "BertNormalizer, Nmt, Precompiled, ByteLevel and Sequence");
  fields.finish();
  return made;
}

}  // namespace zrt::runtime::data::tokenizer_json

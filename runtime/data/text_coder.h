// A tokenizer as its users need it: with the id that ends documents, and with or without the ids of its template.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/data/dataset_tokenizer.h"
#include "runtime/data/tokenizer.h"

namespace zrt::runtime::data {

class TextCoder {
 public:
  // Throws ConfigError where there is to be a template and the tokenizer has none.
  explicit TextCoder(std::shared_ptr<const Tokenizer> tokenizer, bool with_template = false);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  int32_t end() const { return tokenizer_->eod(); }
  bool with_template() const { return with_template_; }
  // The template's ids, none without it.
  std::span<const int32_t> before() const;
  std::span<const int32_t> after() const;
  // The ids behind a document's text: the template's, and the end of a document where they do not end with it.
  std::span<const int32_t> behind_document() const { return behind_; }

  // The ids of a text that a model goes on with: the template's part before it, then its own. Where that is nothing,
  // the end of a document.
  std::vector<int32_t> prompt(std::string_view text) const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool with_template_;
  std::vector<int32_t> behind_;
};

bool has_template(const Tokenizer& tokenizer);

// Uses the template where the datasets' documents have it. Throws as open_tokenizer().
TextCoder open_coder(const DatasetTokenizer& tokenizer);

}  // namespace zrt::runtime::data

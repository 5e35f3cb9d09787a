#include "runtime/data/text_coder.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"

namespace zrt::runtime::data {

bool has_template(const Tokenizer& tokenizer) {
  return !tokenizer.before_text().empty() || !tokenizer.after_text().empty();
}

TextCoder::TextCoder(std::shared_ptr<const Tokenizer> tokenizer, bool with_template)
    : tokenizer_(std::move(tokenizer)), with_template_(with_template) {
  if (with_template && !has_template(*tokenizer_))
    throw core::ConfigError(
        fmt::format("template is asked for, but the tokenizer {} has none: its file puts no ids around a text. Leave "
                    "--template out, or name a tokenizer.json whose post_processor has one.",
                    tokenizer_text(*tokenizer_)));
  behind_.assign(after().begin(), after().end());
  if (behind_.empty() || behind_.back() != end()) behind_.push_back(end());
}

std::span<const int32_t> TextCoder::before() const {
  return with_template_ ? std::span(tokenizer_->before_text()) : std::span<const int32_t>();
}

std::span<const int32_t> TextCoder::after() const {
  return with_template_ ? std::span(tokenizer_->after_text()) : std::span<const int32_t>();
}

std::vector<int32_t> TextCoder::prompt(std::string_view text) const {
  std::vector<int32_t> ids(before().begin(), before().end());
  tokenizer_->encode(text, ids);
  if (ids.empty()) ids.push_back(end());
  return ids;
}

TextCoder open_coder(const DatasetTokenizer& tokenizer) {
  return TextCoder(open_tokenizer(tokenizer), tokenizer.templated);
}

}  // namespace zrt::runtime::data

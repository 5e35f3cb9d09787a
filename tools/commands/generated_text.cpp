#include "tools/commands/generated_text.h"

#include <algorithm>
#include <utility>

namespace zrt::tools {

GeneratedText::GeneratedText(const runtime::data::Tokenizer& tokenizer, std::vector<int32_t> prompt,
                             std::vector<std::string> stops)
    : tokenizer_(tokenizer),
      all_(std::move(prompt)),
      stops_(std::move(stops)),
      prompt_bytes_(tokenizer.decode(all_).size()) {}

// The longest end of the text that a stop string begins with.
size_t GeneratedText::held_back() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, text_.size() - shown_); n > longest; --n) {
      if (text_.compare(text_.size() - n, n, stop, 0, n) == 0) longest = n;
    }
  }
  return longest;
}

std::string GeneratedText::add(int32_t token) {
  if (stopped_) return "";
  if (token >= tokenizer_.vocab_size()) {
    ++beyond_;
    return "";
  }
  all_.push_back(token);
  text_ = tokenizer_.decode(all_).substr(prompt_bytes_);
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, text_.find(stop, shown_));
  stopped_ = first != std::string::npos;
  if (stopped_) text_.resize(first);
  const size_t certain = stopped_ ? text_.size() : text_.size() - held_back();
  const size_t begin = std::exchange(shown_, certain);
  return text_.substr(begin, certain - begin);
}

std::string GeneratedText::end() {
  return text_.substr(std::exchange(shown_, text_.size()));
}

}  // namespace zrt::tools

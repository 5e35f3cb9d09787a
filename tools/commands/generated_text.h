// The text of tokens as they come, up to a stop string.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/tokenizer.h"

namespace zrt::tools {

class GeneratedText {
 public:
  // `prompt` comes first and is no part of the text. `stops`: none is empty. The tokenizer must outlive it.
  GeneratedText(const runtime::data::Tokenizer& tokenizer, std::vector<int32_t> prompt, std::vector<std::string> stops);

  // Returns what is certain to stand in the text and was not returned before: what may be the begin of a stop string is
  // held back. Ids that the model has beyond the tokenizer's (padding of the vocabulary) mean nothing and are counted.
  std::string add(int32_t token);
  bool stopped() const { return stopped_; }  // a stop string was there; the text ends in front of it
  std::string end();                         // what was held back
  const std::string& text() const { return text_; }
  int64_t beyond() const { return beyond_; }

 private:
  size_t held_back() const;
  const runtime::data::Tokenizer& tokenizer_;
  std::vector<int32_t> all_;  // of the prompt, too: a piece may depend on those before it
  std::vector<std::string> stops_;
  const size_t prompt_bytes_;
  std::string text_;
  size_t shown_ = 0;
  int64_t beyond_ = 0;
  bool stopped_ = false;
};

}  // namespace zrt::tools

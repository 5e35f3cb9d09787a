#include "runtime/train/tasks/choice_tokens.h"

#include <fmt/format.h>

#include "core/error.h"

namespace zrt::runtime {

ChoiceTokens choice_tokens(const data::Tokenizer& tokenizer, const TaskItem& item, size_t choice, int64_t sequence) {
  const std::string& text = item.choices[choice];
  const size_t end = item.context.find_last_not_of(" \t\n\v\f\r") + 1;  // npos + 1 = 0: nothing but blanks
  const std::string context = item.context.substr(0, end), rest = item.context.substr(end) + text;
  std::vector<int32_t> before, all;
  tokenizer.encode(context, before);
  tokenizer.encode(context + rest, all);
  ChoiceTokens result;
  result.counted = static_cast<int64_t>(all.size()) - static_cast<int64_t>(before.size());
  result.bytes = static_cast<int64_t>(text.size());
  if (result.counted < 1) {
    throw core::DataError(
        fmt::format("{}: choice {} adds no token to its context: the tokenizer joins it with the context's end. Let "
                    "the choice begin with a blank, or the context end earlier",
                    item.place, choice));
  }
  if (before.empty()) all.insert(all.begin(), tokenizer.eod());
  if (result.counted > sequence) {
    throw core::DataError(fmt::format("{}: choice {} has {} tokens; the model sees {} at once (model.sequence)",
                                      item.place, choice, result.counted, sequence));
  }
  if (const auto most = static_cast<size_t>(sequence) + 1; all.size() > most) {
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most));
    result.cut = true;
  }
  result.ids = std::move(all);
  return result;
}

std::vector<ChoiceTokens> task_tokens(const data::Tokenizer& tokenizer, const std::vector<TaskItem>& items,
                                      int64_t sequence) {
  std::vector<ChoiceTokens> all;
  for (const TaskItem& item : items) {
    for (size_t c = 0; c < item.choices.size(); ++c) all.push_back(choice_tokens(tokenizer, item, c, sequence));
  }
  return all;
}

}  // namespace zrt::runtime

#include "runtime/train/tasks/choice_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace zrt::runtime {

ChoiceTokens choice_tokens(const data::TextCoder& coder, const TaskItem& item, size_t choice, int64_t sequence) {
  const std::string& text = item.choices[choice];
  const size_t end = item.context.find_last_not_of(" \t\n\v\f\r") + 1;  // npos + 1 = 0: nothing but blanks
  const std::string context = item.context.substr(0, end), rest = item.context.substr(end) + text;
  std::vector<int32_t> before, all;
  coder.tokenizer().encode(context, before);
  coder.tokenizer().encode(context + rest, all);
  ChoiceTokens result;
  result.counted = static_cast<int64_t>(all.size()) - static_cast<int64_t>(before.size());
  result.bytes = static_cast<int64_t>(text.size());
  if (result.counted < 1) {
    throw core::DataError(
        fmt::format("{}: choice {} adds no token to its context: the tokenizer joins it with the context's end. Let "
                    "the choice begin with a blank, or the context end earlier",
                    item.place, choice));
  }
  std::vector<int32_t> front(coder.before().begin(), coder.before().end());
  if (front.empty() && before.empty()) front.push_back(coder.end());
  const auto kept = static_cast<std::ptrdiff_t>(coder.before().size());  // never cut
  if (const int64_t most = sequence - std::max<int64_t>(kept - 1, 0); result.counted > most) {
    throw core::DataError(fmt::format("{}: choice {} has {} tokens; the model sees {} at once (model.sequence)",
                                      item.place, choice, result.counted, most));
  }
  all.insert(all.begin(), front.begin(), front.end());
  if (const auto most = static_cast<size_t>(sequence) + 1; all.size() > most) {
    all.erase(all.begin() + kept, all.end() - (static_cast<std::ptrdiff_t>(most) - kept));
    result.cut = true;
  }
  result.ids = std::move(all);
  return result;
}

std::vector<ChoiceTokens> task_tokens(const data::TextCoder& coder, const std::vector<TaskItem>& items,
                                      int64_t sequence) {
  std::vector<ChoiceTokens> all;
  for (const TaskItem& item : items) {
    for (size_t c = 0; c < item.choices.size(); ++c) all.push_back(choice_tokens(coder, item, c, sequence));
  }
  return all;
}

}  // namespace zrt::runtime

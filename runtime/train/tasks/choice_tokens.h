// A context and one of its choices as token ids.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/text_coder.h"
#include "runtime/train/tasks/task_file.h"

namespace zrt::runtime {

struct ChoiceTokens {
  std::vector<int32_t> ids{};  // of the context, then of the choice
  int64_t counted = 0;         // of the choice, at the end
  int64_t bytes = 0;           // of its text, as the file has it
  bool cut = false;            // the context has lost tokens at its left
};

// Tokenises as EleutherAI's lm-evaluation-harness does: blanks at the context's end go to the choice; both are encoded
// together, and what comes behind as many ids as the context has alone is the choice. The coder's template
// stands in front; without it and a context, the end of a document. Of a text longer than `sequence` + 1 ids, the last
// of which only is named, ids at the left are cut off, behind the template. Throws DataError where a choice has no id,
// or more than a sequence.
ChoiceTokens choice_tokens(const data::TextCoder& coder, const TaskItem& item, size_t choice, int64_t sequence);

// Does so with every choice of every item, in their order.
std::vector<ChoiceTokens> task_tokens(const data::TextCoder& coder, const std::vector<TaskItem>& items,
                                      int64_t sequence);

}  // namespace zrt::runtime

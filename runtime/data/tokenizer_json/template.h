// The ids that a post-processor puts around one text, such as [CLS] and [SEP]. Documents get them where a build
// asks for it (text_coder.h).
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/data/tokenizer_json/fields.h"

namespace zrt::runtime::data::tokenizer_json {

struct Template {
  std::vector<int32_t> before, after;
};

// Ids must be below `vocabulary`. Throws DataError naming the type where there is no such post-processor.
Template read_template(Fields fields, int64_t vocabulary);

}  // namespace zrt::runtime::data::tokenizer_json

// Checks that the options of a build go together, and with its inputs.
#pragma once
#include "runtime/data/build.h"
#include "runtime/data/tokenizer.h"

namespace zrt::runtime::data {

// All throw ConfigError.
void require_use(const InputFiles& inputs, const BuildOptions& options);  // an input has a use for each option
void require_conversations(const BuildOptions& options);                  // they make sense for those
void require_counts(const Tokenizer& tokenizer);                          // it can say which tokens count

}  // namespace zrt::runtime::data

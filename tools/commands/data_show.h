// `zrt data show`: a conversation as a model reads it, or a document of a dataset, and what of it counts in training.
#pragma once
#include "tools/commands/command.h"

namespace zrt::tools {

constexpr const char* show_usage = "zrt data show --chat DIR FILE.jsonl, or zrt data show --document N PREFIX";
int show_command(const Args& args);

}  // namespace zrt::tools

// `zrt data show`: a conversation as a model reads it, and what of it training would count.
#pragma once
#include "tools/commands/command.h"

namespace zrt::tools {

constexpr const char* show_usage = "zrt data show --chat DIR FILE.jsonl";
int show_command(const Args& args);

}  // namespace zrt::tools

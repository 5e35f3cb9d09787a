// zrt checkpoint delink: layers that share parameters become layers of their own in a checkpoint.
#pragma once
#include "tools/commands/arguments.h"

namespace zrt::tools {

int checkpoint_delink(const Args& args);

}  // namespace zrt::tools

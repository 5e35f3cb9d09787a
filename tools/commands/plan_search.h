// `zrt plan --search`.
#pragma once
#include "tools/commands/arguments.h"

namespace zrt::tools {

// Prints the ways that the search finds. Exit code: 0 when one fits, else 1. Throws UsageError without a cluster or a
// configuration's file.
int search_command(const po::variables_map& values);

}  // namespace zrt::tools

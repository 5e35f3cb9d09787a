// Logs go to stderr; results go to stdout.
#pragma once
#include <spdlog/spdlog.h>

namespace zrt::core {

// Sets up stderr logging; colours only on a terminal and without NO_COLOR.
void init_log();

}  // namespace zrt::core

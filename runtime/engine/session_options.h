// Makes the options of the ranks' sessions from a configuration.
#pragma once
#include "runtime/config/config.h"
#include "runtime/engine/session.h"

namespace zrt::runtime {

SessionOptions session_options(const Config& config);

}  // namespace zrt::runtime

// What a configuration says about the sessions of its ranks.
#pragma once
#include "runtime/config/config.h"
#include "runtime/engine/session.h"

namespace zrt::runtime {

SessionOptions session_options(const Config& config);

}  // namespace zrt::runtime

// The configuration that `zrt plan` is asked about.
#pragma once
#include "runtime/config/config.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {

// CONFIG, with --model in place of its model. Where a folder alone is named, by CONFIG or by --model: training its
// model with settings that are usual for one that goes on from published weights. They are logged. Throws UsageError
// where nothing or two folders are named.
runtime::Config plan_config(const po::variables_map& values);

}  // namespace zrt::tools

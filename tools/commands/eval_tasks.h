// zrt eval RUN --tasks FILE.jsonl: multiple-choice tasks.
#pragma once
#include "comm/transport.h"
#include "runtime/train/resume.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {

void add_task_options(po::options_description& options);
// Throws UsageError for options that go with --tasks alone, or not with it.
void check_task_options(const po::variables_map& values);
// Every process of the run calls it; rank 0's prints the result.
int eval_tasks(const po::variables_map& values, comm::Transport& transport, const runtime::RunPaths& run,
               const runtime::Config& config);

}  // namespace zrt::tools

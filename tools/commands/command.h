// The subcommands of `zrt`. Each parses its arguments, runs, prints results to stdout and returns the exit code. Errors
// are thrown.
#pragma once
#include <string>
#include <vector>

namespace zrt::tools {

using Args = std::vector<std::string>;

int train_command(const Args& args);
int plan_command(const Args& args);
int launch_command(const Args& args);
int ranks_command(const Args& args);
int checkpoint_command(const Args& args);
int data_command(const Args& args);
int eval_command(const Args& args);
int generate_command(const Args& args);
int bench_command(const Args& args);
int report_command(const Args& args);
int config_command(const Args& args);

}  // namespace zrt::tools

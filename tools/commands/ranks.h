// The ranks of a command: their options, their transport, and what an error in one of them does to all.
#pragma once
#include <functional>
#include <memory>

#include "comm/transport.h"
#include "tools/commands/arguments.h"

namespace zrt::tools {

// --ranks and --transport; without --ranks a process started by hand has `threads` of them.
void add_rank_options(po::options_description& options);
std::unique_ptr<comm::Transport> start_ranks(const po::variables_map& values, int threads = 1);

// Runs `body`; an error ends all processes of the run and is printed by one of them.
int run_ranks(comm::Transport& transport, const std::function<int()>& body);

// Prints an error to stderr and returns the exit code.
int report_error(const std::exception& error);

// True where mpirun or srun started this process as one of several.
bool several_processes();

// Logs a warning when the launcher gave this process fewer processors than its threads need.
void warn_of_binding(const comm::Transport& transport, int threads_per_rank);

// Throws UsageError in one of several processes that mpirun or srun started, for commands that know nothing of others.
void need_single_process(const std::string& command);

}  // namespace zrt::tools

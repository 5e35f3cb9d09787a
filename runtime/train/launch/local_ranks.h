// Starts the processes of a run, one for each rank, without MPI, and ends all of them when one fails.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/train/launch/hosts.h"

namespace zrt::runtime {

// Runs `command` (a program by its path, and its arguments) `ranks` times on this host; each process finds its place in
// the variables of comm/launch.h. Returns 0 when all have ended with it, else the exit code of the first that did not,
// or 128 + the signal that ended it: that rank is named on stderr, and the others are killed seconds later; those of a
// run that stops with everything saved have the time they need. The signals of stop_signals.h ask all to stop, as
// SIGINT; a second one, two seconds later or more, kills them. SIGUSR1 is passed on. The processes are asked to stop
// when the calling thread dies, those of other hosts killed. Call it in a process without other children and threads.
// Throws core::Error.
int run_local_ranks(const std::vector<std::string>& command, int ranks);

// The same over hosts: starts `agent` (words, such as ssh) once for each, with the host's name and a line for its
// shell, which goes to this folder there and runs its share of the ranks with this process's variables that begin with
// ZRT_, NCCL_, CUDA_ or OMP_. The program and the files must lie under the same paths everywhere.
int run_on_hosts(const std::vector<std::string>& command, const std::vector<Host>& hosts,
                 const std::vector<std::string>& agent);

// Tells whether such a line started this process, as one host's share of a run; run_share() then starts its ranks.
bool has_share();
int run_share(const std::vector<std::string>& command);

}  // namespace zrt::runtime

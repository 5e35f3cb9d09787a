// Who started this process, and the transport that follows from it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/transport.h"

namespace zrt::comm {

struct Launch {
  std::string launcher;  // "Open MPI", "PMI", "Slurm"
  int world = 1;         // processes
};

using Environment = std::function<const char*(const char* name)>;  // null where a variable is not set

// What the environment says: Open MPI before PMI before Slurm; none for a process started by hand or by a batch script
// outside srun. Throws UsageError when Open MPI and PMI disagree, when a number is none, and when another launcher, as
// torchrun and deepspeed are, started this process as one of several: each would train by itself.
std::optional<Launch> detect_launch(const Environment& environment);

// `kind` is "thread", "mpi", or "" for mpi in a process of mpirun or srun and thread elsewhere; `ranks` is what the
// command line asks for; without, a process of its own has `threads`. Throws UsageError when that contradicts the
// launcher.
std::unique_ptr<Transport> make_transport(const std::string& kind, std::optional<int> ranks, int threads = 1);

}  // namespace zrt::comm

// Who started this process, and the transport that follows from it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/transport.h"

namespace zrt::comm {

struct Launch {
  std::string launcher;                               // "Open MPI", "PMI", "Slurm", "zrt ranks", "torchrun"
  int world = 1;                                      // processes
  std::optional<SocketPlace> meeting = std::nullopt;  // of launchers that are no MPI
};

using Environment = std::function<const char*(const char* name)>;  // null where a variable is not set

// Reads from the environment who started this process. It asks for zrt ranks before torchrun before Open MPI before PMI
// before Slurm, and last for other launchers that set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as deepspeed does.
// Returns none for a process started by hand or by a batch script outside srun. Throws UsageError when Open MPI and PMI
// disagree, when a number is none, and when a launcher that zrt does not understand (jsrun, Flux, PALS) started this
// process as one of several and says no way to the others: each would train by itself.
std::optional<Launch> detect_launch(const Environment& environment);

// `kind` is "thread", "mpi", "socket", "nccl", or "" for what the launcher implies and thread where there is none;
// `ranks` is what the command line asks for; without, a process of its own has `threads`. Throws UsageError when that
// contradicts the launcher. The variables by which `zrt ranks` tells a process its place.
inline constexpr const char *rank_variable = "ZRT_RANK", *world_variable = "ZRT_WORLD_SIZE",
                            *address_variable = "ZRT_ADDRESS", *port_variable = "ZRT_PORT",
                            *key_variable = "ZRT_RUN_KEY", *listener_variable = "ZRT_LISTENER";

std::unique_ptr<Transport> make_transport(const std::string& kind, std::optional<int> ranks, int threads = 1);

}  // namespace zrt::comm

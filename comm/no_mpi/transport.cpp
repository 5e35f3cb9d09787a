// The mpi transport of a build without MPI.
#include "comm/transport.h"

#include "core/error.h"

namespace zrt::comm {

std::unique_ptr<Transport> make_mpi_transport(const std::string&, int) {
  throw core::UsageError(
      "this zrt was built without MPI, so it cannot run one rank per process; install libopenmpi-dev and openmpi-bin, "
      "configure and build anew, or use --ranks N without mpirun for threads");
}

}  // namespace zrt::comm

// The files through which Open MPI connects the processes of a machine: 4 MiB a rank in /dev/shm, which a killed run
// would leave there. As soon as every process has mapped all of them their names are removed, and with the last process
// the memory goes, however that ends.
#pragma once
#include <chrono>
#include <string>

namespace zrt::comm {

class SharedFiles {
 public:
  // Is called after a first exchange between all processes. Keeps the names where it cannot tell that nobody needs them
  // any more, or which of them this process made. Collective.
  void unlink(std::chrono::milliseconds timeout);
  // Is called before MPI_Finalize, which removes the name of this process's file and complains when it is gone: an
  // empty file takes it.
  void restore() const;

 private:
  std::string own_;  // "" while the names are there
};

}  // namespace zrt::comm

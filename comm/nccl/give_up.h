// Gives up a communicator of NCCL, with what its GPU still runs of it.
#pragma once
#include <string>

#include "comm/nccl/library.h"

namespace zrt::comm {

// Returns when the streams go on. NCCL waits for its kernels and threads meanwhile, which may stand where no abort
// reaches them: if that takes more than 4 s, the process prints who could not leave and why it had to, and ends with
// code 1, as the thread that would end it in order is the one that stands still.
void give_up(const NcclLibrary& library, ncclComm_t communicator, const std::string& who, const std::string& reason);

}  // namespace zrt::comm

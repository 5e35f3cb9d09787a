// The functions of the emulator's stand-in for NCCL, which programs are linked with.
#include <cstdlib>
#include <string_view>

#include "comm/nccl/library.h"
#include "core/cuda/cuda.h"
#include "core/error.h"

namespace zrt::comm {

// ZRT_EMULATED_NCCL=missing is a machine without NCCL.
NcclLibrary load_nccl() {
  const char* fault = std::getenv("ZRT_EMULATED_NCCL");
  if (fault && std::string_view(fault) == "missing") throw core::ConfigError("NCCL cannot be loaded (emulated)");
  return {.get_unique_id = ncclGetUniqueId,
          .init_rank = ncclCommInitRankConfig,
          .finalize = ncclCommFinalize,
          .destroy = ncclCommDestroy,
          .abort = ncclCommAbort,
          .async_error = ncclCommGetAsyncError,
          .error_string = ncclGetErrorString,
          .group_start = ncclGroupStart,
          .group_end = ncclGroupEnd,
          .send = ncclSend,
          .receive = ncclRecv,
          .all_gather = ncclAllGather,
          .broadcast = ncclBroadcast,
          .all_reduce = ncclAllReduce,
          .reduce = ncclReduce,
          .stream = core::cuda::stream};
}

}  // namespace zrt::comm

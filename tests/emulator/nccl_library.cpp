// The functions of the emulator's stand-in for NCCL, which programs are linked with.
#include "comm/nccl/library.h"
#include "core/cuda/cuda.h"

namespace zrt::comm {

NcclLibrary load_nccl() {
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
          .stream = core::cuda::stream};
}

}  // namespace zrt::comm

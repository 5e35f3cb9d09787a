// The functions of NCCL that zrt calls, found at run time, so that programs start where the library is missing.
#pragma once
#include <nccl.h>

#include <string>

namespace zrt::comm {

struct NcclLibrary {
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) init_rank;
  decltype(&ncclCommFinalize) finalize;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclCommGetAsyncError) async_error;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduce) reduce;
  cudaStream_t (*stream)();  // that of the calling thread's place

  // Throws core::Error naming the call and NCCL's reason.
  void check(ncclResult_t code, const char* call) const;
};

// Calls of NCCL made while it lives are one; finish() starts them and returns what ncclGroupEnd does.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclLibrary& library);
  ~NcclGroup();  // ends a group that an error cut short
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ncclResult_t finish();

 private:
  const NcclLibrary& library_;
  bool open_ = true;
};

// Loaded on the first call. Throws ConfigError when there is no libnccl.so.2 or it is too old.
const NcclLibrary& nccl_library();
// nccl_library() alone calls it. A build with the emulated GPU has its own, whose functions are those of a stand-in
// (tests/emulator/nccl_library.cpp).
NcclLibrary load_nccl();

}  // namespace zrt::comm

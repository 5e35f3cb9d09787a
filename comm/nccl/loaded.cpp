#include <dlfcn.h>
#include <fmt/format.h>

#include "comm/nccl/library.h"
#include "core/cuda/cuda.h"
#include "core/error.h"

namespace zrt::comm {
namespace {

void* open_library() {
  // NCCL is taken where the system finds it, else where it was when zrt was built.
  for (const char* name : {"libnccl.so.2", ZRT_NCCL_FOLDER "/libnccl.so.2"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  throw core::ConfigError(
      fmt::format("NCCL cannot be loaded ({}); install it, put its folder into LD_LIBRARY_PATH, or use --transport "
                  "thread",
                  dlerror()));
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) {
    throw core::ConfigError(fmt::format("libnccl.so.2 has no {}; zrt needs NCCL 2.22 or later", name));
  }
}

}  // namespace

NcclLibrary load_nccl() {
  void* library = open_library();
  NcclLibrary nccl{};
  find(library, "ncclGetUniqueId", nccl.get_unique_id);
  find(library, "ncclCommInitRankConfig", nccl.init_rank);
  find(library, "ncclCommFinalize", nccl.finalize);
  find(library, "ncclCommDestroy", nccl.destroy);
  find(library, "ncclCommAbort", nccl.abort);
  find(library, "ncclCommGetAsyncError", nccl.async_error);
  find(library, "ncclGetErrorString", nccl.error_string);
  find(library, "ncclGroupStart", nccl.group_start);
  find(library, "ncclGroupEnd", nccl.group_end);
  find(library, "ncclSend", nccl.send);
  find(library, "ncclRecv", nccl.receive);
  find(library, "ncclAllGather", nccl.all_gather);
  find(library, "ncclBroadcast", nccl.broadcast);
  find(library, "ncclAllReduce", nccl.all_reduce);
  find(library, "ncclReduce", nccl.reduce);
  decltype(&ncclGetVersion) get_version = nullptr;
  find(library, "ncclGetVersion", get_version);
  int version = 0;
  if (get_version(&version) != ncclSuccess || version < NCCL_VERSION(2, 22, 0)) {
    throw core::ConfigError(fmt::format("NCCL is of version code {}; zrt needs 2.22 (22200) or later", version));
  }
  nccl.stream = core::cuda::stream;
  return nccl;
}

}  // namespace zrt::comm

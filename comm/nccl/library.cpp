#include "comm/nccl/library.h"

#include <fmt/format.h>

#include "core/error.h"

namespace zrt::comm {

void NcclLibrary::check(ncclResult_t code, const char* call) const {
  if (code != ncclSuccess) throw core::Error(fmt::format("{} failed: {}", call, error_string(code)));
}

NcclGroup::NcclGroup(const NcclLibrary& library) : library_(library) {
  library_.check(library_.group_start(), "ncclGroupStart");
}

NcclGroup::~NcclGroup() {
  if (open_) library_.group_end();
}

ncclResult_t NcclGroup::finish() {
  open_ = false;
  return library_.group_end();
}

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load_nccl();
  return library;
}

}  // namespace zrt::comm

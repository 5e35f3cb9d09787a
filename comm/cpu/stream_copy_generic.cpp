#include <cstring>

#include "comm/cpu/stream_copy.h"

namespace zrt::comm {

void stream_copy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

}  // namespace zrt::comm

#include "core/peer_memory.h"

#include "core/cuda/backend.h"
#include "core/error.h"

namespace zrt::core {

GpuHandle gpu_handle(const void*) {
  throw Error(cuda::not_built);
}
PeerMemory::PeerMemory(const GpuHandle&) {
  throw Error(cuda::not_built);
}
PeerMemory::~PeerMemory() = default;
StreamWords::StreamWords(void* page, size_t) : page_(page) {
  throw Error(cuda::not_built);
}
StreamWords::~StreamWords() = default;
void write_word(uint32_t*, uint32_t) {
  throw Error(cuda::not_built);
}
void wait_for_word(uint32_t*, uint32_t) {
  throw Error(cuda::not_built);
}

}  // namespace zrt::core

#include "core/peer_memory.h"

#include <cstring>

#include "core/cuda/cuda.h"
#include "core/cuda/gpu.h"
#include "core/cuda/stream_values.h"
#include "core/error.h"

namespace zrt::core {

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(GpuHandle));

GpuHandle gpu_handle(const void* memory) {
  cudaIpcMemHandle_t handle;
  ZRT_CUDA(cudaIpcGetMemHandle(&handle, const_cast<void*>(memory)));
  GpuHandle bytes;
  std::memcpy(bytes.data(), &handle, sizeof handle);
  return bytes;
}

PeerMemory::PeerMemory(const GpuHandle& handle) {
  cudaIpcMemHandle_t theirs;
  std::memcpy(&theirs, handle.data(), sizeof theirs);
  void* memory = nullptr;
  ZRT_CUDA(cudaIpcOpenMemHandle(&memory, theirs, cudaIpcMemLazyEnablePeerAccess));
  data_ = static_cast<std::byte*>(memory);
}

PeerMemory::~PeerMemory() {
  try {
    cuda::synchronize_gpus();
  } catch (const Error&) {
    // Nothing that could read the memory runs after a fault.
  }
  cudaIpcCloseMemHandle(data_);
}

StreamWords::StreamWords(void* page, size_t bytes) : page_(page) {
  ZRT_CUDA(cudaHostRegister(page, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
}

StreamWords::~StreamWords() {
  cudaHostUnregister(page_);
}

void write_word(uint32_t* word, uint32_t value) {
  cuda::write_value(cuda::stream(), word, value);
}

void wait_for_word(uint32_t* word, uint32_t value) {
  cuda::wait_value(cuda::stream(), word, value);
}

}  // namespace zrt::core

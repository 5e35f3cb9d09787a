#include "core/cuda/stream_values.h"

#include <cuda.h>
#include <fmt/format.h>

#include "core/cuda/cuda.h"
#include "core/error.h"

namespace zrt::core::cuda {
namespace {

using Operation = CUresult(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);

// Finds a function of the driver without linking against its library.
Operation* find(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  // Newer toolkits advise a variant that older ones lack.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const cudaError_t code = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#pragma GCC diagnostic pop
  if (code != cudaSuccess || result != cudaDriverEntryPointSuccess) {
    cudaGetLastError();
    throw Error(fmt::format(
        "this GPU's driver has no {} of CUDA 12, by which CUDA streams and the host wait for each other; use a newer "
        "driver, or keep states off the host's lanes and ranks in one process",
        name));
  }
  return reinterpret_cast<Operation*>(found);
}

void queue(Operation* operation, const char* name, cudaStream_t stream, const void* word, uint32_t value,
           unsigned flags) {
  void* address = nullptr;
  ZRT_CUDA(cudaHostGetDevicePointer(&address, const_cast<void*>(word), 0));
  const CUresult code = operation(stream, reinterpret_cast<CUdeviceptr>(address), value, flags);
  if (code == CUDA_ERROR_NOT_SUPPORTED) {
    throw Error(
        fmt::format("this GPU's streams cannot wait for values in memory ({}), by which they wait for the host "
                    "and for other processes; keep states off the host's lanes and ranks in one process",
                    name));
  }
  check(static_cast<cudaError_t>(code), name, __FILE__, __LINE__);  // codes are the same
}

}  // namespace

void wait_value(cudaStream_t stream, const void* word, uint32_t at_least) {
  constexpr const char* name = "cuStreamWaitValue32";
  static Operation* const operation = find(name);
  queue(operation, name, stream, word, at_least, CU_STREAM_WAIT_VALUE_GEQ);
}

// The flag that leaves the barrier out is not set: what the stream wrote before is seen first.
void write_value(cudaStream_t stream, const void* word, uint32_t value) {
  constexpr const char* name = "cuStreamWriteValue32";
  static Operation* const operation = find(name);
  queue(operation, name, stream, word, value, CU_STREAM_WRITE_VALUE_DEFAULT);
}

}  // namespace zrt::core::cuda

#include "core/cuda/backend.h"

#include <fmt/format.h>

#include <cstdlib>

#include "core/cuda/cuda.h"
#include "core/cuda/gpu.h"
#include "core/cuda/pinned.h"
#include "core/error.h"
#include "core/ledger.h"

namespace zrt::core::cuda {
namespace {

// The driver puts smaller allocations into one of this size, and a handle for another process would be that one's.
constexpr uint64_t driver_page = 2 << 20;

uint64_t used_bytes() {
  size_t free = 0, total = 0;
  ZRT_CUDA(cudaMemGetInfo(&free, &total));
  return total - free;
}

// Taken when the context is there and nothing else.
uint64_t context_bytes() {
  static PerGpu<uint64_t> bytes;
  return bytes.get(used_bytes);
}

int attribute(cudaDeviceAttr which) {
  int value = 0;
  ZRT_CUDA(cudaDeviceGetAttribute(&value, which, current_gpu()));
  return value;
}

std::string no_image() {
  cudaDeviceProp properties;
  ZRT_CUDA(cudaGetDeviceProperties(&properties, current_gpu()));
  return fmt::format(
      "{} has compute capability {}.{}, for which this zrt has no code; it was built for {}. Configure with "
      "-DZRT_CUDA_ARCHITECTURES={}{}, or use --device cpu",
      properties.name, properties.major, properties.minor, ZRT_CUDA_BUILT_FOR, properties.major, properties.minor);
}

}  // namespace

void fail(cudaError_t code, const char* expression, const char* file, int line) {
  const std::string text = fmt::format("CUDA: {} ({}) from {} at {}:{}", cudaGetErrorName(code),
                                       cudaGetErrorString(code), expression, file, line);
  if (code == cudaErrorMemoryAllocation) throw MemoryError(text);
  throw Error(text);
}

int multiprocessors() {
  static PerGpu<int> count;
  return count.get([] { return attribute(cudaDevAttrMultiProcessorCount); });
}

int compute_capability() {
  static PerGpu<int> value;
  return value.get(
      [] { return 10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor); });
}

// Sets the variable before anything else is asked of CUDA, which may read it then: a GPU takes streams up by so many
// queues, eight if nobody says more. Ranks that share a GPU have more streams, and one that waits for another rank's
// message must not stand before what that message needs.
void ask_for_queues() {
  static const int asked = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  static_cast<void>(asked);
}

std::optional<std::string> missing() {
  ask_for_queues();
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) {
    context_bytes();
    return has_image() ? std::nullopt : std::optional(no_image());
  }
  cudaGetLastError();  // the refusal must not surface in a later check
  return fmt::format("no NVIDIA GPU can be used here ({}); use --device cpu, or a machine with a GPU and its driver",
                     code == cudaSuccess                   ? "the driver lists none"
                     : code == cudaErrorInsufficientDriver ? "there is no driver, or one too old for this CUDA"
                                                           : cudaGetErrorString(code));
}

std::string description() {
  int driver = 0, runtime = 0;
  cudaDeviceProp properties;
  ZRT_CUDA(cudaGetDeviceProperties(&properties, current_gpu()));
  ZRT_CUDA(cudaDriverGetVersion(&driver));
  ZRT_CUDA(cudaRuntimeGetVersion(&runtime));
  return fmt::format("{}, compute capability {}.{}, driver for CUDA {}.{}, runtime {}.{}", properties.name,
                     properties.major, properties.minor, driver / 1000, driver % 1000 / 10, runtime / 1000,
                     runtime % 1000 / 10);
}

void copy_bytes(void* to, const void* from, uint64_t bytes) {
  if (bytes > 0) ZRT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()));
}

void fill_bytes(void* to, uint8_t value, uint64_t bytes) {
  if (bytes > 0) ZRT_CUDA(cudaMemsetAsync(to, value, bytes, stream()));
}

void* allocate(uint64_t bytes, bool pinned, uint8_t fill) {
  if (const auto reason = missing()) throw ConfigError(*reason);
  note_use();
  void* memory = nullptr;
  if (pinned) {
    memory = allocate_pinned(bytes, fill);
  } else {
    cudaMalloc(&memory, (bytes + driver_page - 1) / driver_page * driver_page);
  }
  if (memory == nullptr) {
    const cudaError_t code = cudaGetLastError();
    throw MemoryError(fmt::format("{} of {} could not be taken from the {}: {}", pinned ? "pinned memory" : "an arena",
                                  format_bytes(bytes), pinned ? "host" : "GPU", cudaGetErrorString(code)));
  }
  if (!pinned) {
    ZRT_CUDA(cudaMemset(memory, fill, bytes));
    ZRT_CUDA(cudaDeviceSynchronize());  // streams of our own do not wait for the default stream
  }
  return memory;
}

void release(void* memory, bool pinned) {
  if (pinned) {
    release_pinned(memory);
  } else {
    cudaFree(memory);
  }
}

void read(void* to, const void* from, uint64_t bytes) {
  synchronize_gpu_of(from);
  ZRT_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}

Memory memory() {
  context_bytes();
  size_t free = 0, total = 0;
  ZRT_CUDA(cudaMemGetInfo(&free, &total));
  return {free, total, context_bytes()};
}

}  // namespace zrt::core::cuda

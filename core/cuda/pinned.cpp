#include "core/cuda/pinned.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/cuda/gpu.h"

namespace zrt::core::cuda {
namespace {

constexpr uint64_t chunk_bytes = uint64_t{256} << 20;
constexpr unsigned most_threads = 16;

// Threads take chunks in turns. The first touch is what makes the system find pages, which takes it longer than all
// the rest; the driver, which would do it on one thread, then only pins them.
void fill_chunks(std::byte* memory, uint64_t bytes, uint8_t value) {
  const uint64_t chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  std::atomic<uint64_t> next = 0;
  const auto work = [&] {
    for (uint64_t chunk = next++; chunk < chunks; chunk = next++) {
      const uint64_t begin = chunk * chunk_bytes;
      std::memset(memory + begin, value, std::min(chunk_bytes, bytes - begin));
    }
  };
  const auto count = std::min<uint64_t>(chunks, std::clamp(std::thread::hardware_concurrency(), 1u, most_threads));
  std::vector<std::jthread> others;
  for (uint64_t i = 1; i < count; ++i) others.emplace_back(work);
  work();
}

// Memory that was mapped here and pinned afterwards, by address; the driver's own allocations are not in it.
struct Mapped {
  std::mutex mutex;
  std::map<void*, uint64_t> bytes;
};
Mapped& mapped() {
  static Mapped& mapped = *new Mapped;  // arenas may be released at the end of the program
  return mapped;
}

// Returns memory on whole pages, as files are read and written. It is one piece, though pages come in chunks: copies
// may not cross from one pinned piece to the next.
void* map_and_pin(uint64_t bytes, uint8_t fill) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_HUGEPAGE);
  fill_chunks(static_cast<std::byte*>(memory), bytes, fill);
  if (cudaHostRegister(memory, bytes, cudaHostRegisterPortable) != cudaSuccess) {
    cudaGetLastError();
    munmap(memory, bytes);
    return nullptr;
  }
  const std::lock_guard lock(mapped().mutex);
  mapped().bytes[memory] = bytes;
  return memory;
}

}  // namespace

void* allocate_pinned(uint64_t bytes, uint8_t fill) {
  if (bytes > 0) {
    if (void* memory = map_and_pin(bytes, fill)) return memory;
  }
  // A driver may pin nothing but its own memory: where that lies on no whole page, files refuse it by name.
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocPortable) != cudaSuccess) return nullptr;
  fill_chunks(static_cast<std::byte*>(memory), bytes, fill);
  return memory;
}

void release_pinned(void* memory) {
  uint64_t bytes = 0;
  {
    const std::lock_guard lock(mapped().mutex);
    if (const auto node = mapped().bytes.extract(memory)) bytes = node.mapped();
  }
  if (bytes == 0) {
    cudaFreeHost(memory);
    return;
  }
  try {
    synchronize_gpus();              // as cudaFreeHost does: copies may still be under way
  } catch (const std::exception&) {  // a fault of the device ends them, too
  }
  cudaHostUnregister(memory);
  munmap(memory, bytes);
}

}  // namespace zrt::core::cuda

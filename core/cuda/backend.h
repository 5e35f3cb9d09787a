// Core needs these functions of the GPU. They are implemented in cuda/ where the CUDA Toolkit is found, else in
// no_cuda/, where nothing but the refusals can be reached.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/recording.h"
#include "core/stream.h"

namespace zrt::core::cuda {

inline constexpr const char* not_built =
    "this zrt was built without the CUDA Toolkit; build it where nvcc is found, or use --device cpu";

// Called before anything else is asked of CUDA, as these functions and gpu_count() do.
void ask_for_queues();
// Returns what keeps this build or machine from using a GPU, if anything.
std::optional<std::string> missing();
std::string description();

std::unique_ptr<Stream> make_stream(std::string name);
std::unique_ptr<Recording> record(std::span<Stream* const> streams, const std::function<void()>& give);
void copy_bytes(void* to, const void* from, uint64_t bytes);
void fill_bytes(void* to, uint8_t value, uint64_t bytes);

// Memory of the calling thread's GPU, or of the host and pinned, filled with `fill`. Throws MemoryError.
void* allocate(uint64_t bytes, bool pinned, uint8_t fill);
void release(void* memory, bool pinned);
// Waits for everything queued on the GPU whose memory `from` is, of pinned memory on any, then copies to the host.
void read(void* to, const void* from, uint64_t bytes);

// The driver says this of the calling thread's GPU. `context` was in use before this process took anything from it:
// its own context, and whatever else lives on the GPU.
struct Memory {
  uint64_t free = 0, total = 0, context = 0;
};
Memory memory();

}  // namespace zrt::core::cuda

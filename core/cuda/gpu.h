// The GPUs of this process, for files of the CUDA back end alone.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "core/gpu.h"

namespace zrt::core::cuda {

inline constexpr int most_gpus = 64;

// Waits for all that this process has queued on any GPU; or on the one whose memory it is, which alone writes there.
void synchronize_gpus();
void synchronize_gpu_of(const void* memory);
// Notes that this process has work on the calling thread's GPU.
void note_use();
// True where kernels of the calling thread's GPU can read this memory in place: the host's, its own, or that of a GPU
// which connect_gpus() has connected to it.
bool reaches(const void* memory);
// True once connect_gpus() has met a pair that cannot be connected: then callers must ask reaches().
bool unconnected();

// Something that each GPU has one of, made at its first use there.
template <class T>
class PerGpu {
 public:
  template <class Make>
  const T& get(Make make) {
    Slot& slot = slots_[current_gpu()];
    std::call_once(slot.once, [&] { slot.value = make(); });
    return slot.value;
  }

 private:
  struct Slot {
    std::once_flag once;
    T value{};
  };
  Slot slots_[most_gpus];
};

}  // namespace zrt::core::cuda

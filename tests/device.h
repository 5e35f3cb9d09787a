// The device that a test program runs on (`test_x --device cuda`, or ZRT_TEST_DEVICE=cuda), and memory that both the
// host and this device can read: plain memory on the CPU, pinned memory on a GPU.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/stream.h"

namespace zrt::test {

core::DeviceKind test_device();
// Of main, before any test. Throws core::ConfigError when there is no such device.
void set_test_device(core::DeviceKind kind);

// Waits for the calling thread's stream: what kernels were given may then be read, changed and freed by the host.
void settle();

// Puts the calling thread on the test's device, with a stream of its own. Main has one; other threads need theirs.
class OnTestDevice {
 public:
  OnTestDevice();
  ~OnTestDevice();

 private:
  std::unique_ptr<core::Stream> stream_;  // of a GPU
  core::OnPlace here_;
};

// 64-byte aligned, with a red zone behind it. Freeing settles, and on a GPU the test fails when the zone was written to
// (on the CPU that is what AddressSanitizer is for).
void* allocate_visible(size_t bytes);
void free_visible(void* data, size_t bytes) noexcept;

template <class T>
struct VisibleAllocator {
  using value_type = T;
  VisibleAllocator() = default;
  template <class U>
  VisibleAllocator(const VisibleAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(allocate_visible(n * sizeof(T))); }
  void deallocate(T* data, size_t n) noexcept { free_visible(data, n * sizeof(T)); }
  bool operator==(const VisibleAllocator&) const { return true; }
};

// What kernels read and write in tests. The host must settle() between a kernel and its own use of the elements.
template <class T>
using Visible = std::vector<T, VisibleAllocator<T>>;
template <class T>
Visible<T> visible(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

}  // namespace zrt::test

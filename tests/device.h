// The device that a test program runs on (`test_x --device cuda`, or ZRT_TEST_DEVICE=cuda), memory that both the host
// and this device can read (plain memory on the CPU, pinned memory on a GPU), and memory of the device alone.
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
// Main calls it before any test. Throws core::ConfigError when there is no such device.
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

// Returns memory that is 64-byte aligned, with a red zone behind it. Freeing settles, and on a GPU the test fails when
// the zone was written to (on the CPU that is what AddressSanitizer is for).
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

// The elements that kernels read and write in tests. The host must settle() between a kernel and its own use of them.
template <class T>
using Visible = std::vector<T, VisibleAllocator<T>>;
template <class T>
Visible<T> visible(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

// Bytes where kernels of a run have them: in the memory of a GPU, which the host cannot touch, so that copies go back
// and forth. Races in it and in its caches show there and not in the host's memory. They are aligned alike, with a red
// zone.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes);  // undefined contents
  ~DeviceBytes();
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::byte* data() const { return data_; }
  void write(const void* from);  // all of it; queued behind the kernels so far
  void read(void* to) const;     // likewise, behind which it waits
 private:
  std::byte* data_;
  size_t bytes_;
};

// A vector's elements in the device's memory for as long as kernels have them: copied there when this is made, and back
// by fetch(). Where place() is the CPU they stay where they are.
template <class Vector>
class Lent {
 public:
  explicit Lent(Vector& values) : values_(values) {
    if (core::place().device == core::DeviceKind::cpu || values.empty()) return;
    there_ = std::make_unique<DeviceBytes>(values.size() * sizeof(values[0]));
    settle();  // whoever wrote the values
    there_->write(values.data());
  }
  auto* data() const { return there_ ? reinterpret_cast<decltype(values_.data())>(there_->data()) : values_.data(); }
  void fetch() const {
    if (there_) there_->read(values_.data());
  }

 private:
  Vector& values_;
  std::unique_ptr<DeviceBytes> there_;
};

}  // namespace zrt::test

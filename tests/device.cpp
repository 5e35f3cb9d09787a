#include "tests/device.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>

#include "catch.h"
#include "core/arena.h"

namespace zrt::test {
namespace {

constexpr std::align_val_t alignment{64};
constexpr size_t chunk_bytes = size_t{64} << 20;

core::DeviceKind device = core::DeviceKind::cpu;

// Pinning memory takes the driver milliseconds, and tests make thousands of buffers: they share a few pinned arenas.
class Pool {
 public:
  std::byte* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& free = free_[bytes];
    if (!free.empty()) {
      std::byte* data = free.back();
      free.pop_back();
      return data;
    }
    if (left_ < bytes) {
      // Never freed: at the end of the program the driver may be gone before it.
      auto* arena = new core::Arena(core::Tier::host, std::max(bytes, chunk_bytes), device);
      next_ = arena->data(), left_ = arena->bytes();
    }
    std::byte* data = next_;
    next_ += bytes, left_ -= bytes;
    return data;
  }
  void give_back(std::byte* data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    free_[bytes].push_back(data);
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> free_;  // by size
  std::byte* next_ = nullptr;
  size_t left_ = 0;
};
Pool& pool() {
  static Pool& pool = *new Pool;
  return pool;
}

size_t pooled(size_t bytes) {
  return (bytes + core::red_zone_bytes + 63) / 64 * 64;
}

}  // namespace

core::DeviceKind test_device() {
  return device;
}

void set_test_device(core::DeviceKind kind) {
  core::require_device(kind);
  device = kind;
}

void settle() {
  if (core::place().stream) core::place().stream->synchronize();
}

OnTestDevice::OnTestDevice()
    : stream_(device == core::DeviceKind::cpu ? nullptr : core::make_stream(device, "test")),
      here_({device, stream_.get()}) {}
OnTestDevice::~OnTestDevice() = default;

void* allocate_visible(size_t bytes) {
  if (device == core::DeviceKind::cpu) return ::operator new(bytes, alignment);
  std::byte* data = pool().take(pooled(bytes));
  core::paint_red_zone(data + bytes);
  return data;
}

void free_visible(void* data, size_t bytes) noexcept {
  if (device == core::DeviceKind::cpu) return ::operator delete(data, alignment);
  try {
    settle();
  } catch (const std::exception& error) {
    // An error that nothing can be read after; whatever the test does next fails by it too.
    std::fprintf(stderr, "%s\n", error.what());
  }
  if (!core::red_zone_intact(static_cast<std::byte*>(data) + bytes)) {
    FAIL_CHECK("a kernel wrote behind a buffer of " << bytes << " bytes");
  }
  pool().give_back(static_cast<std::byte*>(data), pooled(bytes));
}

}  // namespace zrt::test

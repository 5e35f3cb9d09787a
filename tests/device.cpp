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
// Memory of the emulated GPU is opened and closed around its work, which takes time for every page.
constexpr size_t visible_chunk = size_t{64} << 20, device_chunk = size_t{4} << 20;

core::DeviceKind device = core::DeviceKind::cpu;

// Taking memory takes the driver milliseconds, and tests make thousands of buffers: they share a few arenas.
class Pool {
 public:
  Pool(core::Tier tier, size_t chunk) : tier_(tier), chunk_(chunk) {}
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
      auto* arena = new core::Arena(tier_, std::max(bytes, chunk_), device);
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
  core::Tier tier_;
  size_t chunk_;
  std::mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> free_;  // by size
  std::byte* next_ = nullptr;
  size_t left_ = 0;
};
Pool& visible_pool() {
  static Pool& pool = *new Pool(core::Tier::host, visible_chunk);
  return pool;
}
Pool& device_pool() {
  static Pool& pool = *new Pool(core::Tier::device, device_chunk);
  return pool;
}

size_t pooled(size_t bytes) {
  return (bytes + core::red_zone_bytes + 63) / 64 * 64;
}

// At the end of a buffer's life. An error is one that nothing can be read after; whatever the test does next fails by
// it too.
void settle_to_free() noexcept {
  try {
    settle();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

void require_zone(const std::byte* zone, size_t bytes) {
  if (!core::red_zone_intact(zone)) FAIL_CHECK("a kernel wrote behind a buffer of " << bytes << " bytes");
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
  std::byte* data = visible_pool().take(pooled(bytes));
  core::paint_red_zone(data + bytes);
  return data;
}

void free_visible(void* data, size_t bytes) noexcept {
  if (device == core::DeviceKind::cpu) return ::operator delete(data, alignment);
  settle_to_free();
  require_zone(static_cast<std::byte*>(data) + bytes, bytes);
  visible_pool().give_back(static_cast<std::byte*>(data), pooled(bytes));
}

DeviceBytes::DeviceBytes(size_t bytes) : bytes_(bytes) {
  if (device == core::DeviceKind::cpu) {
    data_ = static_cast<std::byte*>(::operator new(bytes, alignment));
    return;
  }
  data_ = device_pool().take(pooled(bytes));
  core::fill_bytes(data_ + bytes, core::red_zone_byte, core::red_zone_bytes);
}
DeviceBytes::~DeviceBytes() {
  if (device == core::DeviceKind::cpu) {
    ::operator delete(data_, alignment);
    return;
  }
  settle_to_free();
  std::byte zone[core::red_zone_bytes];
  try {
    core::read_bytes(zone, data_ + bytes_, sizeof zone, device);
    require_zone(zone, bytes_);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  device_pool().give_back(data_, pooled(bytes_));
}
void DeviceBytes::write(const void* from) {
  core::copy_bytes(data_, from, bytes_);
}
void DeviceBytes::read(void* to) const {
  settle();
  core::read_bytes(to, data_, bytes_, device);
}

}  // namespace zrt::test

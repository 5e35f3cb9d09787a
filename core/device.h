// Says where the kernels that a thread calls run: on the thread itself (with core::threads() threads), or on a stream
// of a GPU. Everything that computes or moves bytes asks place(); only executors and tests set it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zrt::core {

class Stream;

enum class DeviceKind : uint8_t { cpu, cuda };
std::string_view device_name(DeviceKind kind);  // "cpu", "cuda"
std::optional<DeviceKind> parse_device(std::string_view name);

// Sizes of workspaces depend on the device alone, so that plans for a GPU can be made where there is none: there
// `stream` is null.
struct Place {
  DeviceKind device = DeviceKind::cpu;
  Stream* stream = nullptr;  // of a GPU; the CPU needs none
};
const Place& place();  // of the calling thread; the CPU unless a guard says otherwise

// Sets the calling thread's place as long as it lives.
class OnPlace {
 public:
  explicit OnPlace(Place place);
  ~OnPlace();
  OnPlace(const OnPlace&) = delete;
  OnPlace& operator=(const OnPlace&) = delete;

 private:
  Place before_;
};

// Throws ConfigError, saying what is missing, when this build or machine cannot run on `kind`.
void require_device(DeviceKind kind);
std::string device_description(DeviceKind kind);  // "NVIDIA H200, driver 13.0 …"; for logs

// Both work at the calling thread's place: on a GPU they are queued on its stream, and host memory must then be pinned
// and left alone until the stream has come so far. `to` and `from` may be of either tier.
void copy_bytes(void* to, const void* from, uint64_t bytes);
void fill_bytes(void* to, uint8_t value, uint64_t bytes);
// Copies from memory of `device` to the host, after everything queued that may write it; for use between programs.
void read_bytes(void* to, const void* from, uint64_t bytes, DeviceKind device);

}  // namespace zrt::core

#include "core/device.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "core/cpu/event.h"
#include "core/cpu/stream.h"
#include "core/cuda/backend.h"
#include "core/error.h"
#include "core/kernel.h"

namespace zrt::core {
namespace {

constexpr std::array<std::string_view, 2> names{"cpu", "cuda"};
thread_local Place current;

}  // namespace

std::string_view device_name(DeviceKind kind) {
  return names[static_cast<size_t>(kind)];
}

std::optional<DeviceKind> parse_device(std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<DeviceKind>(i);
  }
  return std::nullopt;
}

const Place& place() {
  return current;
}

OnPlace::OnPlace(Place place) : before_(current) {
  current = place;
}
OnPlace::~OnPlace() {
  current = before_;
}

void require_device(DeviceKind kind) {
  if (kind != DeviceKind::cuda) return;
  if (const auto missing = cuda::missing()) throw ConfigError(fmt::format("--device cuda: {}", *missing));
}

void refuse_cuda() {
  throw ConfigError(cuda::not_built);
}

std::string device_description(DeviceKind kind) {
  return kind == DeviceKind::cuda ? cuda::description() : "CPU";
}

void copy_bytes(void* to, const void* from, uint64_t bytes) {
  if (current.device == DeviceKind::cuda) return cuda::copy_bytes(to, from, bytes);
  std::memmove(to, from, bytes);
}

void fill_bytes(void* to, uint8_t value, uint64_t bytes) {
  if (current.device == DeviceKind::cuda) return cuda::fill_bytes(to, value, bytes);
  std::memset(to, value, bytes);
}

void read_bytes(void* to, const void* from, uint64_t bytes, DeviceKind device) {
  if (device == DeviceKind::cuda) return cuda::read(to, from, bytes);
  std::memcpy(to, from, bytes);
}

std::unique_ptr<Recording> record(std::span<Stream* const> streams, const std::function<void()>& give) {
  return cuda::record(streams, give);
}

std::unique_ptr<Stream> make_stream(DeviceKind device, std::string name, int threads) {
  if (device == DeviceKind::cuda) return cuda::make_stream(std::move(name));
  return make_cpu_stream(std::move(name), threads);
}

Anchor make_anchor(Stream& stream) {
  stream.synchronize();  // so that the event completes as soon as it is recorded
  Event event = stream.record_time();
  event.wait();
  return {std::move(event), steady_seconds()};
}

}  // namespace zrt::core

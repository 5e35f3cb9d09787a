#include "offload/paced_link.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/device.h"

namespace zrt::offload {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void PacedLink::copy(void* to, const void* from, uint64_t bytes) {
  bytes_ += bytes;
  if (bytes_per_second_ <= 0 || core::place().device != core::DeviceKind::cpu) return core::copy_bytes(to, from, bytes);
  // Sleeping is late by tens of microseconds; a link that starts a moment after the last copy goes on from its end.
  constexpr double break_seconds = 200e-6;
  const double start = now();
  if (start > free_at_ + break_seconds) free_at_ = start;
  free_at_ += static_cast<double>(bytes) / bytes_per_second_;
  core::copy_bytes(to, from, bytes);
  const double left = free_at_ - now();
  if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
}

}  // namespace zrt::offload

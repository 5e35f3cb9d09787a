#include "core/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/cuda/backend.h"
#include "core/error.h"
#include "core/gpu.h"

namespace zrt::core {
namespace {
constexpr uint64_t guard_bytes = 64 << 10;

// One past the last byte of data[0 … bytes) that is no canary.
uint64_t last_touched(const std::byte* data, uint64_t bytes) {
  uint64_t end = bytes;
  constexpr uint64_t word = 0x0101010101010101ull * canary_byte;
  while (end >= 8) {
    uint64_t value;
    std::memcpy(&value, data + end - 8, 8);
    if (value != word) break;
    end -= 8;
  }
  while (end > 0 && data[end - 1] == std::byte{canary_byte}) --end;
  return end;
}

}  // namespace

Arena::Arena(Tier tier, uint64_t bytes, DeviceKind device, std::shared_ptr<void> keep)
    : tier_(tier), bytes_(bytes), mapped_(bytes + guard_bytes), keep_(std::move(keep)) {
  if (device == DeviceKind::cpu) {
    map(-1);
    return;
  }
  kind_ = tier == Tier::device ? Kind::gpu : Kind::pinned;
  data_ = static_cast<std::byte*>(cuda::allocate(mapped_, kind_ == Kind::pinned, canary_byte));
  gpu_ = current_gpu();
}

Arena::Arena(Tier tier, uint64_t bytes, int file, std::shared_ptr<void> keep)
    : tier_(tier), bytes_(bytes), mapped_(bytes + guard_bytes), keep_(std::move(keep)) {
  map(file);
}

void Arena::map(int file) {
  const bool shared = file >= 0;
  const int flags = shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* mapping = MAP_FAILED;
  if (!shared || ftruncate(file, static_cast<off_t>(mapped_)) == 0) {
    mapping = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, flags, file, 0);
  }
  if (mapping == MAP_FAILED) {
    throw MemoryError(fmt::format("the {} arena of {} could not be mapped: {}", tier_names[static_cast<size_t>(tier_)],
                                  format_bytes(mapped_), std::strerror(errno)));
  }
  data_ = static_cast<std::byte*>(mapping);
  // Large pages where the system allows them: GEMM operands span many megabytes.
  madvise(mapping, mapped_, MADV_HUGEPAGE);
  std::memset(data_, canary_byte, mapped_);
}

Arena::~Arena() {
  keep_.reset();
  if (kind_ == Kind::mapped) {
    munmap(data_, mapped_);
  } else {
    cuda::release(data_, kind_ == Kind::pinned);
  }
}

uint64_t Arena::highest_touched() const {
  const auto without_zone = [&](uint64_t end, const std::byte* last) {
    return end >= red_zone_bytes && red_zone_intact(last - red_zone_bytes) ? end - red_zone_bytes : end;
  };
  if (kind_ != Kind::gpu) {
    const uint64_t end = last_touched(data_, mapped_);
    return without_zone(end, data_ + end);
  }
  std::vector<std::byte> part(std::min<uint64_t>(mapped_, 4 << 20));
  for (uint64_t end = mapped_; end > 0;) {
    const uint64_t begin = end - std::min<uint64_t>(end, part.size());
    cuda::read(part.data(), data_ + begin, end - begin);
    if (const uint64_t touched = last_touched(part.data(), end - begin)) {
      const uint64_t tail = std::min<uint64_t>(begin + touched, red_zone_bytes);
      cuda::read(part.data(), data_ + begin + touched - tail, tail);
      return without_zone(begin + touched, part.data() + tail);
    }
    end = begin;
  }
  return 0;
}

void paint_red_zone(std::byte* begin) {
  std::memset(begin, red_zone_byte, red_zone_bytes);
}

bool red_zone_intact(const std::byte* begin) {
  for (uint64_t i = 0; i < red_zone_bytes; ++i) {
    // A buffer that is never written as a whole, but only updated, has a zone that nobody painted.
    if (begin[i] != std::byte{red_zone_byte} && begin[i] != std::byte{canary_byte}) return false;
  }
  return true;
}

}  // namespace zrt::core

#include "core/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace zrt::core {
namespace {
constexpr uint64_t guard_bytes = 64 << 10;
}

Arena::Arena(Tier tier, uint64_t bytes) : tier_(tier), bytes_(bytes), mapped_(bytes + guard_bytes) {
  map(-1);
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
  munmap(data_, mapped_);
}

uint64_t Arena::highest_touched() const {
  uint64_t end = mapped_;
  constexpr uint64_t word = 0x0101010101010101ull * canary_byte;
  while (end >= 8) {
    uint64_t value;
    std::memcpy(&value, data_ + end - 8, 8);
    if (value != word) break;
    end -= 8;
  }
  while (end > 0 && data_[end - 1] == std::byte{canary_byte}) --end;
  return end;
}

void paint_red_zone(std::byte* begin) {
  std::memset(begin, canary_byte, red_zone_bytes);
}

bool red_zone_intact(const std::byte* begin) {
  for (uint64_t i = 0; i < red_zone_bytes; ++i) {
    if (begin[i] != std::byte{canary_byte}) return false;
  }
  return true;
}

}  // namespace zrt::core

// Consecutive buffers in one block of memory, each starting on 64 bytes. Sizes and addresses come from the same code:
// a block's function that lays out its buffers runs with a null base to learn the size.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace zrt::models {

class BumpAllocator {
 public:
  explicit BumpAllocator(std::byte* base = nullptr, uint64_t start = 0) : base_(base), next_(start) {}

  // The next buffer of `bytes`; null (and no space) for 0 bytes.
  template <class T = void>
  T* take(uint64_t bytes) {
    if (bytes == 0) return nullptr;
    const uint64_t begin = (next_ + 63) / 64 * 64;
    next_ = begin + bytes;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + begin);
  }

  // Another layout of the space from here on; `cover` makes this one reach as far.
  BumpAllocator overlay() const { return BumpAllocator(base_, next_); }
  void cover(const BumpAllocator& other) { next_ = std::max(next_, other.next_); }

  uint64_t bytes() const { return next_; }  // ends with the last byte of the last buffer

 private:
  std::byte* base_;
  uint64_t next_;
};

}  // namespace zrt::models

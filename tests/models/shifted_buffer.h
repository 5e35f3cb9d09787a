// The same numbers at an address that is a multiple of 64 bytes, or some elements behind one.
#pragma once
#include "tests/models/kernel_data.h"

namespace zrt::test {

class Shifted {
 public:
  Shifted(DType type, const KernelBuffer& values, int64_t shift)
      : type_(type), shift_(shift), buffer_(type, values.size() + shift) {
    std::memcpy(buffer_.host_bytes().data() + skipped(), values.host().data(), bytes());
  }
  void* data() { return static_cast<std::byte*>(buffer_.data()) + skipped(); }
  float* floats() { return static_cast<float*>(data()); }
  // Sets the bits of 16-bit types as they are.
  template <class Bits>
  void set_bits(const Bits& bits_of) {
    auto* to = reinterpret_cast<uint16_t*>(buffer_.host_bytes().data()) + shift_;
    for (int64_t i = 0; i < buffer_.size() - shift_; ++i) to[i] = bits_of(i);
  }
  std::vector<uint16_t> bits() const {
    const auto* from = reinterpret_cast<const uint16_t*>(buffer_.host().data()) + shift_;
    return {from, from + buffer_.size() - shift_};
  }
  KernelBuffer values() const {
    KernelBuffer result(type_, buffer_.size() - shift_);
    std::memcpy(result.host_bytes().data(), buffer_.host().data() + skipped(), bytes());
    return result;
  }

 private:
  size_t skipped() const { return static_cast<size_t>(shift_) * core::dtype_size(type_); }
  size_t bytes() const { return static_cast<size_t>(buffer_.size() - shift_) * core::dtype_size(type_); }

  DType type_;
  int64_t shift_;
  KernelBuffer buffer_;
};

}  // namespace zrt::test

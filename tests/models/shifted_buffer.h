// The same numbers at an address that is a multiple of 64 bytes, or some elements behind one.
#pragma once
#include "tests/models/kernel_data.h"

namespace zrt::test {

class Shifted {
 public:
  Shifted(DType type, const KernelBuffer& values, int64_t shift)
      : type_(type), shift_(shift), buffer_(type, values.size() + shift) {
    settle();
    std::memcpy(data(), values.data(), bytes());
  }
  void* data() {
    return static_cast<std::byte*>(buffer_.data()) + shift_ * static_cast<int64_t>(core::dtype_size(type_));
  }
  float* floats() { return static_cast<float*>(data()); }
  KernelBuffer values() {
    KernelBuffer result(type_, buffer_.size() - shift_);
    settle();
    std::memcpy(result.data(), data(), bytes());
    return result;
  }

 private:
  size_t bytes() const { return static_cast<size_t>(buffer_.size() - shift_) * core::dtype_size(type_); }

  DType type_;
  int64_t shift_;
  KernelBuffer buffer_;
};

}  // namespace zrt::test

// Buffers of an element type for kernel tests: random numbers of test_seed(), poison, and values read back as double. On a GPU
// they are memory that both sides read, and every access waits for the kernels before it.
#pragma once
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "tests/device.h"
#include "tests/seed.h"

namespace zrt::test {

using core::DType;

class KernelBuffer {
 public:
  // Poisoned: every byte 0xFB, a large negative number in fp32 and bf16.
  KernelBuffer(DType type, int64_t elements)
      : type_(type), bytes_(static_cast<size_t>(elements) * core::dtype_size(type), std::byte{0xFB}) {}
  KernelBuffer(const KernelBuffer& other) : type_(other.type_), bytes_(other.settled()) {}
  KernelBuffer(KernelBuffer&&) = default;
  KernelBuffer& operator=(const KernelBuffer& other) {
    settle();
    type_ = other.type_, bytes_ = other.bytes_;
    return *this;
  }
  KernelBuffer& operator=(KernelBuffer&&) = default;
  // Uniform in (-scale, scale), rounded to the type.
  static KernelBuffer random(DType type, int64_t elements, double scale = 1) {
    static std::mt19937 generator{test_seed()};
    std::uniform_real_distribution<float> uniform(static_cast<float>(-scale), static_cast<float>(scale));
    KernelBuffer buffer(type, elements);
    for (int64_t i = 0; i < elements; ++i) buffer.put(i, uniform(generator));
    return buffer;
  }

  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  float* floats() { return reinterpret_cast<float*>(bytes_.data()); }
  int64_t size() const { return static_cast<int64_t>(bytes_.size() / core::dtype_size(type_)); }
  double at(int64_t i) const {
    const std::byte* from = settled().data() + static_cast<size_t>(i) * core::dtype_size(type_);
    if (type_ == DType::f32) {
      float value;
      std::memcpy(&value, from, sizeof value);
      return static_cast<double>(value);
    }
    uint16_t bits;
    std::memcpy(&bits, from, sizeof bits);
    return static_cast<double>(type_ == DType::bf16 ? core::to_float(core::bf16{bits})
                                                    : core::to_float(core::f16{bits}));
  }
  void set(int64_t i, float value) {
    settle();
    put(i, value);
  }
  bool operator==(const KernelBuffer& other) const { return settled() == other.bytes_; }

 private:
  const Visible<std::byte>& settled() const {
    settle();
    return bytes_;
  }
  void put(int64_t i, float value) {
    std::byte* to = bytes_.data() + static_cast<size_t>(i) * core::dtype_size(type_);
    const uint16_t half = type_ == DType::bf16 ? core::to_bf16(value).bits : core::to_f16(value).bits;
    std::memcpy(to, type_ == DType::f32 ? static_cast<const void*>(&value) : &half, core::dtype_size(type_));
  }

  DType type_;
  Visible<std::byte> bytes_;
};

using Doubles = std::vector<double>;

inline Doubles doubles(const KernelBuffer& buffer) {
  Doubles result;
  for (int64_t i = 0; i < buffer.size(); ++i) result.push_back(buffer.at(i));
  return result;
}

// Relative L2 distance.
inline double error_of(const KernelBuffer& buffer, const Doubles& expected) {
  if (buffer.size() != static_cast<int64_t>(expected.size())) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = buffer.at(static_cast<int64_t>(i)) - expected[i];
    difference += d * d, norm += expected[i] * expected[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

// What rounding results to the type costs at most (half a unit of 8, 11 or 24 bits), and a few operations in fp32.
inline double tolerance(DType type) {
  return type == DType::f32 ? 5e-7 : type == DType::bf16 ? 4e-3 : 5e-4;
}

}  // namespace zrt::test

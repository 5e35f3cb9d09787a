// Buffers of an element type for kernel tests: random numbers of test_seed(), poison, and values read back as double.
// On a GPU kernels have them in its memory; the host has a copy, and whichever was written last is copied when the
// other is asked.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <span>
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
  KernelBuffer(const KernelBuffer& other) : type_(other.type_), bytes_(other.host()) {}
  KernelBuffer(KernelBuffer&&) = default;
  KernelBuffer& operator=(const KernelBuffer& other) { return *this = KernelBuffer(other); }
  KernelBuffer& operator=(KernelBuffer&&) = default;
  // Uniform in (-scale, scale), rounded to the type.
  static KernelBuffer random(DType type, int64_t elements, double scale = 1) {
    static std::mt19937 generator{test_seed()};
    std::uniform_real_distribution<float> uniform(static_cast<float>(-scale), static_cast<float>(scale));
    KernelBuffer buffer(type, elements);
    for (int64_t i = 0; i < elements; ++i) buffer.put(i, uniform(generator));
    return buffer;
  }

  // Returns the bytes for the next kernels, which may write what is not const.
  void* data() {
    std::byte* const place = device_data();
    newest_ = place == bytes_.data() ? Newest::host : Newest::device;
    return place;
  }
  const void* data() const { return device_data(); }
  float* floats() { return static_cast<float*>(data()); }
  // Returns the bytes for the host, behind the kernels so far.
  std::span<std::byte> host_bytes() {
    host();
    settle();  // an upload may still read them
    newest_ = Newest::host;
    return bytes_;
  }
  const Visible<std::byte>& host() const {
    if (newest_ == Newest::device) there_->read(bytes_.data()), newest_ = Newest::both;
    return bytes_;
  }

  int64_t size() const { return static_cast<int64_t>(bytes_.size() / core::dtype_size(type_)); }
  double at(int64_t i) const {
    const std::byte* from = host().data() + static_cast<size_t>(i) * core::dtype_size(type_);
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
    host_bytes();
    put(i, value);
  }
  bool operator==(const KernelBuffer& other) const { return host() == other.host(); }

 private:
  enum class Newest : uint8_t { host, both, device };

  std::byte* device_data() const {
    if (core::place().device == core::DeviceKind::cpu || bytes_.empty()) {
      host();
      return bytes_.data();
    }
    if (!there_) there_ = std::make_unique<DeviceBytes>(bytes_.size());
    if (newest_ == Newest::host) there_->write(bytes_.data()), newest_ = Newest::both;
    return there_->data();
  }
  void put(int64_t i, float value) {
    std::byte* to = bytes_.data() + static_cast<size_t>(i) * core::dtype_size(type_);
    const uint16_t half = type_ == DType::bf16 ? core::to_bf16(value).bits : core::to_f16(value).bits;
    std::memcpy(to, type_ == DType::f32 ? static_cast<const void*>(&value) : &half, core::dtype_size(type_));
  }

  DType type_;
  mutable Visible<std::byte> bytes_;
  mutable std::unique_ptr<DeviceBytes> there_;  // of a GPU, once a kernel was given it
  mutable Newest newest_ = Newest::host;
};

using Doubles = std::vector<double>;

inline Doubles doubles(const KernelBuffer& buffer) {
  Doubles result;
  for (int64_t i = 0; i < buffer.size(); ++i) result.push_back(buffer.at(i));
  return result;
}

// L2 distance, relative to the larger of the expected values and of `terms`, the L2 norm of all that was added up to
// them: where terms cancel, their rounding stays.
inline double error_of(const KernelBuffer& buffer, const Doubles& expected, double terms = 0) {
  if (buffer.size() != static_cast<int64_t>(expected.size())) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = buffer.at(static_cast<int64_t>(i)) - expected[i];
    difference += d * d, norm += expected[i] * expected[i];
  }
  norm = std::max(norm, terms * terms);
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

// Returns what rounding results to the type (half a unit of 8, 11 or 24 bits) and a few operations in fp32 cost at
// most.
inline double tolerance(DType type) {
  return type == DType::f32 ? 5e-7 : type == DType::bf16 ? 4e-3 : 5e-4;
}

}  // namespace zrt::test

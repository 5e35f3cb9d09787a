// Memory of an exact size that shows misuse: 64-byte aligned, filled with NaN bytes, followed by a red zone. Kernels of
// the test's device and the host read it; every access waits for the kernels before it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace zrt::test {

class GuardedBuffer {
 public:
  explicit GuardedBuffer(uint64_t bytes = 0);
  std::byte* data() const { return bytes_ == 0 ? nullptr : data_.get(); }
  uint64_t bytes() const { return bytes_; }
  void poison();  // every byte 0xFF: NaN in fp32, bf16 and fp16
  // Throws std::runtime_error naming `what` when something was written behind the end.
  void check(const std::string& what) const;

  // The first values.size() elements; store rounds to the type.
  void store(core::DType type, const std::vector<double>& values);
  std::vector<double> load(core::DType type, int64_t elements) const;

 private:
  struct Free {
    uint64_t bytes;
    void operator()(std::byte* data) const;
  };
  uint64_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace zrt::test

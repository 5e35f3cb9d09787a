// XXH3-64 over a stream of bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace zrt::core {

class Hash {
 public:
  Hash();
  ~Hash();
  Hash(Hash&&) noexcept;
  void update(const void* data, size_t bytes);
  uint64_t digest() const;
  std::string hex() const;  // 16 lower-case digits

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

uint64_t xxh3(const void* data, size_t bytes);  // of one piece of memory

}  // namespace zrt::core

// Any bytes of an extent of a BlockFile, a few pieces at a time: for who needs little memory and reads in order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "offload/block_file.h"

namespace zrt::offload {

class ExtentReader {
 public:
  static constexpr uint64_t window_pieces = 4;  // that it holds

  explicit ExtentReader(BlockFile& file);  // `file` must outlive it, and nobody else use it during read()

  // Bytes [skip, skip + count) of the extent of `bytes` at `offset`. What it holds it gives out again: a reader ends
  // before an extent that it has read is written anew. Throws as BlockFile::read.
  void read(uint64_t offset, uint64_t bytes, uint64_t skip, std::byte* to, uint64_t count);

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  void fill(uint64_t offset, uint64_t bytes, uint64_t begin);

  BlockFile& file_;
  const uint64_t window_;                       // bytes
  std::unique_ptr<std::byte[], Free> data_;     // made at the first read
  uint64_t offset_ = 0, begin_ = 0, held_ = 0;  // which bytes of which extent
};

}  // namespace zrt::offload

#include "offload/extent_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/error.h"

namespace zrt::offload {

ExtentReader::ExtentReader(BlockFile& file) : file_(file), window_(window_pieces * file.piece()) {}

void ExtentReader::Free::operator()(std::byte* data) const {
  ::operator delete[](data, std::align_val_t(block_alignment));
}

void ExtentReader::read(uint64_t offset, uint64_t bytes, uint64_t skip, std::byte* to, uint64_t count) {
  if (skip > bytes || count > bytes - skip) {
    throw core::ProgramError(
        fmt::format("{}: {} bytes at {} of an extent of {}", file_.path().string(), count, skip, bytes));
  }
  while (count > 0) {
    const bool holds = held_ > 0 && offset_ == offset && begin_ <= skip && skip < begin_ + held_;
    if (!holds) fill(offset, bytes, skip / file_.piece() * file_.piece());
    const uint64_t part = std::min(count, begin_ + held_ - skip);
    std::memcpy(to, data_.get() + (skip - begin_), part);
    to += part, skip += part, count -= part;
  }
}

void ExtentReader::fill(uint64_t offset, uint64_t bytes, uint64_t begin) {
  if (!data_) {
    data_.reset(static_cast<std::byte*>(::operator new[](window_, std::align_val_t(block_alignment))));
  }
  held_ = 0;  // of a read that fails nothing is left
  const uint64_t count = std::min(window_, bytes - begin);
  file_.read_part(offset, bytes, begin, data_.get(), count);
  offset_ = offset, begin_ = begin, held_ = count;
}

}  // namespace zrt::offload

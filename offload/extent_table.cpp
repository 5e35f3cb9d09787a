#include "offload/extent_table.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "core/error.h"

namespace zrt::offload {

ExtentTable::Extent& ExtentTable::take(uint64_t offset, uint64_t bytes) {
  auto at = extents_.upper_bound(offset);
  if (at != extents_.begin() && std::prev(at)->first + std::prev(at)->second.bytes > offset) --at;
  while (at != extents_.end() && at->first < offset + bytes) {
    Extent& extent = at->second;
    if (at->first == offset && extent.bytes == bytes) {
      detach(offset, extent);
      extent.written = false;
      return extent;
    }
    if (extent.bound) {
      throw core::ProgramError(
          fmt::format("{} bytes at {} overlap an extent of {} at {}, which shares its places with others and can be "
                      "written as a whole only",
                      bytes, offset, extent.bytes, at->first));
    }
    at = extents_.erase(at);
  }
  Extent& extent = extents_[offset];
  extent.bytes = bytes;
  for (uint64_t begin = 0; begin < bytes; begin += piece_) extent.own.push_back(offset + begin);
  extent.at = extent.own;
  extent.hashes.resize(extent.own.size());
  return extent;
}

void ExtentTable::detach(uint64_t offset, Extent& extent) {
  for (size_t i = 0; extent.bound && i < extent.own.size(); ++i) {
    const auto found = aliases_.find(extent.at[i]);
    if (found == aliases_.end()) continue;
    std::vector<Piece>& aliases = found->second;
    if (extent.at[i] != extent.own[i]) {
      std::erase(aliases, Piece{offset, i});
    } else {
      // The latest alias, which most probably is written last, has the place from now on.
      std::swap(extent.own[i], extents_.at(aliases.back().extent).own[i]);
      aliases.pop_back();
    }
    extent.at[i] = extent.own[i];
    if (aliases.empty()) aliases_.erase(found);
  }
}

void ExtentTable::share(uint64_t offset, uint64_t of, size_t first, size_t last) {
  Extent &extent = extents_.at(offset), &source = extents_.at(of);
  extent.bound = source.bound = true;
  for (size_t i = first; i < last; ++i) {
    extent.at[i] = source.at[i];
    extent.hashes[i] = source.hashes[i];
    aliases_[extent.at[i]].push_back({offset, i});
  }
}

const ExtentTable::Extent* ExtentTable::find(uint64_t offset) const {
  const auto at = extents_.find(offset);
  return at == extents_.end() ? nullptr : &at->second;
}

}  // namespace zrt::offload

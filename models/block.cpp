#include "models/block.h"

#include <algorithm>

#include "models/bump_allocator.h"

namespace zrt::models {

const Anatomy& Block::anatomy() const {
  static const Anatomy one{{"all"}, {}, {}};
  return one;
}

uint64_t lay_out_saved(const Block& block, const Shape& shape, Parts parts, Parts without, std::byte* base,
                       std::span<std::byte*> places) {
  BumpAllocator layout(base);
  const size_t end = std::min<size_t>(parts.end, block.anatomy().parts.size());
  for (size_t part = parts.first; part < end; ++part) {
    if (without.has(part)) continue;
    std::byte* const place = layout.take<std::byte>(block.saved_bytes(shape, part));
    if (!places.empty()) places[part] = place;
  }
  return layout.bytes();
}

uint64_t lay_out_held(const Block& block, const Shape& shape, Parts parts, std::byte* base,
                      std::span<std::byte*> places) {
  BumpAllocator layout(base);
  const size_t end = std::min<size_t>(parts.end, block.anatomy().parts.size());
  for (size_t part = parts.first; part < end; ++part) {
    std::byte* const place = layout.take<std::byte>(block.held_bytes(shape, part));
    if (!places.empty()) places[part] = place;
  }
  return layout.bytes();
}

Parts parts_to_rerun(const Block& block, const Shape& shape) {
  Parts parts{0, 0};
  for (size_t part = 0; part < block.anatomy().parts.size(); ++part) {
    if (block.saved_bytes(shape, part) > 0) parts.end = static_cast<uint8_t>(part + 1);
  }
  return parts;
}

}  // namespace zrt::models

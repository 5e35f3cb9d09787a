#include "models/param.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

namespace zrt::models {
namespace {

int64_t product(std::span<const int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

int64_t Param::elements() const {
  return product(shape);
}

std::vector<int64_t> Param::whole_shape() const {
  std::vector<int64_t> whole = shape;
  if (slice) whole[slice->dimension] = slice->extent;
  return whole;
}

int64_t Param::whole_elements() const {
  return product(whole_shape());
}

Param sliced(Param whole, size_t dimension, int ranks, int64_t sections) {
  if (ranks == 1) return whole;
  int64_t& extent = whole.shape[dimension];
  whole.slice = Slice{dimension, extent, sections, ranks};
  extent = sections * ((extent / sections + ranks - 1) / ranks);
  return whole;
}

void for_each_piece(const Param& param, int rank, int64_t begin, int64_t end,
                    const std::function<void(const Piece&)>& visit) {
  if (!param.slice) {
    if (begin < end) visit({begin, begin, end - begin});
    return;
  }
  const Slice& slice = *param.slice;
  const std::span<const int64_t> shape(param.shape);
  const int64_t inner = product(shape.subspan(slice.dimension + 1));
  const int64_t own = shape[slice.dimension] / slice.sections, section = slice.extent / slice.sections;
  const int64_t real = std::clamp<int64_t>(section - rank * own, 0, own);  // of each section, the rest is padding
  while (begin < end) {
    const int64_t row = begin / inner, along = row % shape[slice.dimension];
    const int64_t outer = row / shape[slice.dimension], of = along / own, at = along % own;
    // To the end of what this rank has of the section, or of its padding.
    const int64_t until = (row - at + (at < real ? real : own)) * inner;
    const int64_t count = std::min(end, until) - begin;
    const int64_t whole = ((outer * slice.sections + of) * section + rank * own + at) * inner + begin % inner;
    visit({begin, at < real ? whole : -1, count});
    begin += count;
  }
}

}  // namespace zrt::models

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

// A slice in numbers of its dimension's indices.
struct Cut {
  int64_t inner;         // elements of an index
  int64_t section, own;  // indices of a section: of the whole, and of a rank's part
  int64_t real;          // of its own ones, those that are no padding
};
Cut cut_of(const Param& param, int rank) {
  const Slice& slice = *param.slice;
  const std::span<const int64_t> shape(param.shape);
  const int64_t section = slice.extent / slice.sections, own = shape[slice.dimension] / slice.sections;
  return {product(shape.subspan(slice.dimension + 1)), section, own, std::clamp<int64_t>(section - rank * own, 0, own)};
}

}  // namespace

std::string Param::name_at(int place) const {
  if (!spread || place == 0) return name;
  const size_t behind = name.size() - spread->behind, digits = std::to_string(spread->expert).size();
  return name.substr(0, behind - digits) + std::to_string(spread->expert + place * spread->experts) +
         name.substr(behind);
}

Param Param::at(int place) const {
  Param one = *this;
  one.name = name_at(place);
  one.spread.reset();
  return one;
}

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

bool alike(const Param& a, const Param& b) {
  return a.shape == b.shape && a.summed == b.summed && a.slice == b.slice && a.spread == b.spread;
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
  const int64_t extent = param.shape[slice.dimension];
  const auto [inner, section, own, real] = cut_of(param, rank);
  while (begin < end) {
    const int64_t row = begin / inner, along = row % extent;
    const int64_t outer = row / extent, of = along / own, at = along % own;
    // The run goes to the end of what this rank has of the section, or of its padding.
    const int64_t until = (row - at + (at < real ? real : own)) * inner;
    const int64_t count = std::min(end, until) - begin;
    const int64_t whole = ((outer * slice.sections + of) * section + rank * own + at) * inner + begin % inner;
    visit({begin, at < real ? whole : -1, count});
    begin += count;
  }
}

std::vector<PartRows> rows_of_part(const Param& param, int rank) {
  if (!param.slice) return {{.count = param.elements()}};
  const Slice& slice = *param.slice;
  const auto [inner, section, own, real] = cut_of(param, rank);
  if (real == 0) return {};
  std::vector<PartRows> all;
  for (int64_t of = 0; of < slice.sections; ++of) {
    all.push_back({of * own * inner, (of * section + rank * own) * inner,
                   product(std::span(param.shape).first(slice.dimension)), real * inner,
                   param.shape[slice.dimension] * inner, slice.extent * inner});
  }
  return all;
}

}  // namespace zrt::models

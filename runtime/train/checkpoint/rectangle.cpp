#include "runtime/train/checkpoint/rectangle.h"

#include <algorithm>
#include <numeric>

namespace zrt::runtime::checkpoint {
namespace {

int64_t product(std::span<const int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

// Elements [begin, end) of the sub-tensor at `prefix`, which fixes the first indices.
void cut(std::span<const int64_t> shape, std::vector<int64_t> prefix, int64_t begin, int64_t end,
         std::vector<Rectangle>& out) {
  if (begin >= end) return;
  const size_t dimension = prefix.size();
  const auto push = [&](int64_t first, int64_t last) {  // whole sub-tensors along this dimension
    if (first >= last) return;
    Rectangle r{prefix, std::vector<int64_t>(dimension, 1)};
    r.offsets.push_back(first);
    r.shape.push_back(last - first);
    r.offsets.resize(shape.size(), 0);
    r.shape.insert(r.shape.end(), shape.begin() + static_cast<std::ptrdiff_t>(dimension) + 1, shape.end());
    out.push_back(std::move(r));
  };
  if (shape.empty()) {
    out.push_back({{}, {}});
    return;
  }
  const int64_t inner = product(shape.subspan(dimension + 1));
  const int64_t first = begin / inner, last = end / inner;
  const auto inside = [&](int64_t index, int64_t from, int64_t to) {
    std::vector<int64_t> deeper = prefix;
    deeper.push_back(index);
    cut(shape, std::move(deeper), from, to, out);
  };
  if (begin % inner == 0) {
    push(first, last);
  } else if (first == last) {
    return inside(first, begin % inner, end % inner);
  } else {
    inside(first, begin % inner, inner);
    push(first + 1, last);
  }
  if (end % inner != 0) inside(last, 0, end % inner);
}

bool overlap(const Rectangle& a, const Rectangle& b) {
  for (size_t d = 0; d < a.shape.size(); ++d) {
    if (a.offsets[d] >= b.offsets[d] + b.shape[d] || b.offsets[d] >= a.offsets[d] + a.shape[d]) return false;
  }
  return true;
}

size_t most_divided_dimension(const std::vector<const Rectangle*>& rectangles) {
  size_t best = 0, most = 0;
  for (size_t d = 0; d < rectangles.front()->shape.size(); ++d) {
    std::vector<int64_t> begins;
    for (const Rectangle* rectangle : rectangles) begins.push_back(rectangle->offsets[d]);
    std::sort(begins.begin(), begins.end());
    const auto distinct = static_cast<size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (distinct > most) best = d, most = distinct;
  }
  return best;
}

}  // namespace

int64_t Rectangle::elements() const {
  return product(shape);
}

size_t most_rectangles(size_t dimensions) {
  return dimensions < 2 ? 1 : 2 * dimensions - 1;
}

std::vector<Rectangle> cut_run(std::span<const int64_t> shape, int64_t begin, int64_t end) {
  std::vector<Rectangle> out;
  cut(shape, {}, begin, end, out);
  return out;
}

bool any_overlap(std::vector<const Rectangle*> rectangles, uint64_t* compared) {
  std::erase_if(rectangles, [](const Rectangle* rectangle) { return rectangle->elements() == 0; });
  if (rectangles.size() < 2) return false;
  if (rectangles.front()->shape.empty()) return true;
  const size_t d = most_divided_dimension(rectangles);
  std::sort(rectangles.begin(), rectangles.end(),
            [&](const Rectangle* a, const Rectangle* b) { return a->offsets[d] < b->offsets[d]; });
  std::vector<const Rectangle*> open;  // that reach to where the next one begins
  for (const Rectangle* next : rectangles) {
    if (compared != nullptr) *compared += open.size();
    std::erase_if(open,
                  [&](const Rectangle* before) { return before->offsets[d] + before->shape[d] <= next->offsets[d]; });
    if (std::any_of(open.begin(), open.end(), [&](const Rectangle* before) { return overlap(*before, *next); }))
      return true;
    open.push_back(next);
  }
  return false;
}

void common_runs(std::span<const int64_t> shape, const Rectangle& rectangle, int64_t begin, int64_t end,
                 const std::function<void(int64_t, int64_t, int64_t)>& visit) {
  const size_t dimensions = shape.size();
  if (rectangle.elements() == 0) return;
  // Trailing dimensions that the rectangle covers whole make one run together with the dimension before them.
  size_t split = dimensions;
  int64_t run = 1;
  while (split > 0) {
    --split;
    run *= rectangle.shape[split];
    if (rectangle.shape[split] != shape[split]) break;
  }
  std::vector<int64_t> index(split, 0);  // within the rectangle, over the dimensions before the run
  for (int64_t done = 0;; done += run) {
    int64_t at = 0;  // of the run's first element in the tensor
    for (size_t d = 0; d < dimensions; ++d) at = at * shape[d] + rectangle.offsets[d] + (d < split ? index[d] : 0);
    const int64_t from = std::max(at, begin), to = std::min(at + run, end);
    if (from < to) visit(from, done + from - at, to - from);
    size_t d = split;
    while (d > 0 && ++index[d - 1] == rectangle.shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace zrt::runtime::checkpoint

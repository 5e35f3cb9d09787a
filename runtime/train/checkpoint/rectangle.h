// A run of a tensor's elements in memory order, cut into rectangles: checkpoints hold rectangles with their place in
// the whole tensor, as PyTorch's distributed checkpoint does, while ZeRO's shards are runs that may start in mid row.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace zrt::runtime::checkpoint {

struct Rectangle {
  std::vector<int64_t> offsets, shape;  // in the whole tensor; as many as it has dimensions
  int64_t elements() const;
};

// Elements [begin, end) of a tensor, in order; each rectangle is itself one run. At most 2 · dimensions - 1 of them.
std::vector<Rectangle> cut_run(std::span<const int64_t> shape, int64_t begin, int64_t end);
size_t most_rectangles(size_t dimensions);

// Tells whether two of them have an element in common. They are sorted along the dimension in which most of them begin
// at places of their own, and each is compared with those that reach as far: for rows or columns that is about one.
// `compared`, if there is one, counts comparisons.
bool any_overlap(std::vector<const Rectangle*> rectangles, uint64_t* compared = nullptr);

// Calls visit(element of the tensor, element of the rectangle, count) for every run that the rectangle and elements
// [begin, end) of the tensor have in common, in order.
void common_runs(std::span<const int64_t> shape, const Rectangle& rectangle, int64_t begin, int64_t end,
                 const std::function<void(int64_t, int64_t, int64_t)>& visit);

}  // namespace zrt::runtime::checkpoint

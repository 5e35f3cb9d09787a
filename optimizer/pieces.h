// Helpers of the element-wise optimizers: a unit's part cut into pieces for threads, with types as table indices.
#pragma once
#include <cstddef>

#include "core/parallel.h"
#include "optimizer/optimizer.h"

namespace zrt::optimizer {

inline size_t grad_index(const UnitPart& part) {
  return static_cast<size_t>(part.grad_type);
}
inline size_t weight_index(const UnitPart& part) {
  return part.weight ? static_cast<size_t>(part.weight_type) : 3;
}

inline const void* grad_at(const UnitPart& part, int64_t i) {
  return static_cast<const std::byte*>(part.grad) + static_cast<size_t>(i) * core::dtype_size(part.grad_type);
}
// Null when there is no copy of the weights.
inline void* weight_at(const UnitPart& part, int64_t i) {
  if (!part.weight) return nullptr;
  return static_cast<std::byte*>(part.weight) + static_cast<size_t>(i) * core::dtype_size(part.weight_type);
}

// body(first, count, grad, weight) for pieces of the part; `first` is an index into it.
template <class Body>
void for_pieces(const UnitPart& part, const Body& body) {
  core::parallel_for(part.count, unit_alignment, [&](int64_t begin, int64_t end) {
    body(begin, end - begin, grad_at(part, begin), weight_at(part, begin));
  });
}

}  // namespace zrt::optimizer

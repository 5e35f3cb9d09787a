// Pieces in which ranks that have slices of the same tensors tell each other of a unit for an export: all of it on
// every rank would need more memory than a step does.
#pragma once
#include <algorithm>
#include <cstdint>

#include "runtime/program/layout.h"

namespace zrt::runtime {

struct UnitPiece {
  int64_t begin, count;  // elements of a rank's unit
};

// Elements of a piece of all ranks together, at most.
inline constexpr int64_t most_exported = int64_t{4} << 20;

inline int64_t elements_of_piece(const Layout& layout, const optimizer::Unit& unit) {
  return std::min(unit.elements, std::max<int64_t>(1, most_exported / layout.mesh.degree(unit.slice_axes())));
}
inline uint32_t export_pieces(const Layout& layout, const optimizer::Unit& unit) {
  const int64_t most = elements_of_piece(layout, unit);
  return static_cast<uint32_t>((unit.elements + most - 1) / most);
}
inline UnitPiece export_piece(const Layout& layout, const optimizer::Unit& unit, uint32_t number) {
  const int64_t most = elements_of_piece(layout, unit), begin = number * most;
  return {begin, std::min(most, unit.elements - begin)};
}

}  // namespace zrt::runtime

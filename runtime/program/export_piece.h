// Ranks that have slices of the same tensors tell each other of a unit in pieces for an export: all of it on every rank
// would need more memory than a step does.
#pragma once
#include <algorithm>
#include <cstdint>

#include "runtime/program/layout.h"

namespace zrt::runtime {

struct UnitPiece {
  int64_t begin, count;  // elements of a rank's unit
};

// All ranks together have at least so many elements of a piece, where the unit has.
inline constexpr int64_t fewest_exported = int64_t{4} << 20;

// A piece of all ranks together is a quarter of the unit of one: a step needs more beside the unit, and a program has
// not many more ops for it.
inline int64_t elements_of_piece(const Layout& layout, const optimizer::Unit& unit) {
  const int64_t whole = std::max(fewest_exported, unit.elements / 4), ranks = layout.mesh.degree(unit.slice_axes());
  constexpr int64_t step = optimizer::unit_alignment;
  return std::min(unit.elements, (whole / ranks + step - 1) / step * step);
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

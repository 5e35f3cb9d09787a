// Seams: ranks along an axis of the mesh complete what a part of a block hands on, and its gradient on the way back, by
// a collective. A block's anatomy names a seam for each port; programs have an op for each that does something on the
// mesh at hand.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/mesh.h"
#include "models/degrees.h"

namespace zrt::models {

// They work in place, on buffers of the same size on all of these ranks.
enum class Collective : uint8_t {
  none,            // each keeps what it has made
  all_reduce,      // each has made a part of a sum: all get the sum
  reduce_scatter,  // each has made a part of a sum: each gets rows of its own of the sum
  all_gather,      // each has made rows of its own: all get all rows
  // Each has made a message to each, of which the port's rows are one behind the other; what comes lies behind them.
  all_to_all,
};
constexpr std::string_view collective_name(Collective collective) {
  constexpr std::string_view names[] = {"nothing", "all-reduce", "reduce-scatter", "all-gather", "all-to-all"};
  return names[static_cast<size_t>(collective)];
}
constexpr bool adds_up(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter;
}

struct Seam {
  core::Axis axis = core::Axis::tensor;
  Collective forward = Collective::none, backward = Collective::none;

  Collective of(bool gradient) const { return gradient ? backward : forward; }
  // All ranks have it alike, and each works on a part of what follows.
  bool enters() const { return adds_up(backward); }
  // Ranks complete nothing: what one call has made is there for the next one of the same rank.
  bool stays() const { return forward == Collective::none && backward == Collective::none; }
  // Rows go to other ranks and come back: the port has room for both, and rows of its own (Block::port_rows).
  bool delivers() const { return forward == Collective::all_to_all; }
  // A product made it: the gradients of that one's weights read what comes back.
  bool of_product() const { return adds_up(forward) || stays(); }
  bool operator==(const Seam&) const = default;
};

// Tensor parallelism (Shoeybi et al., "Megatron-LM", 2019), with shared rows as in Korthikanti et al., "Reducing
// Activation Recomputation in Large Transformer Models", 2022: what enters a part that ranks share, and the part of a
// sum that leaves it.
inline Seam enter(const Degrees& degrees) {
  return degrees.shares_rows() ? Seam{core::Axis::tensor, Collective::all_gather, Collective::reduce_scatter}
                               : Seam{core::Axis::tensor, Collective::none, Collective::all_reduce};
}
inline Seam leave(const Degrees& degrees) {
  const Seam back = enter(degrees);
  return {back.axis, back.backward, back.forward};
}
// An all-gather of what each rank has made of every row.
inline constexpr Seam gathered{core::Axis::tensor, Collective::all_gather, Collective::all_gather};

}  // namespace zrt::models

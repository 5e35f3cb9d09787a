// The groups of ranks that the ops of a program set communicate in.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/mesh.h"
#include "runtime/program/buffer.h"

namespace zrt::runtime {

using core::all_axes;
using core::Axes;
using core::Axis;
using core::data_axes;
using core::island_axes;
using core::Mesh;
using core::outer_axes;
using core::RankGroups;
using core::stage_axes;

// Ranks that take part in an op of a comm lane. A rank is in one group of each kind, if need be alone; each kind has a
// lane of its own.
struct Group {
  Axes axes;         // Axis::pipeline for pairs of stages, which their names tell apart
  std::string name;  // "dp", "dp.inner", "dp.outer", "tp", "tp.dp", "ep", "edp", "world", "pp.even.forward" …
  RankGroups ranks;
  // For NCCL's contributions to sums (comm/nccl/staging.h). No op accesses it: a group's calls follow one another.
  BufferId staging = no_buffer;
};

// Two ranks that have neighbouring stages, by the boundary between these (even ones are between stages 0 and 1, 2 and
// 3, …) and the direction; and the first and the last, where stages have several chunks.
constexpr std::string_view link_name(bool odd, bool forward) {
  if (odd) return forward ? "pp.odd.forward" : "pp.odd.backward";
  return forward ? "pp.even.forward" : "pp.even.backward";
}
constexpr std::string_view wrap_name(bool forward) {
  return forward ? "pp.wrap.forward" : "pp.wrap.backward";
}
inline constexpr std::string_view copies_name = "embedding";  // the first and the last, both with copies of parameters
inline constexpr std::string_view layers_name = "layers";     // stages whose layers share parameters
constexpr std::string_view copies_group(bool of_layers) {
  return of_layers ? layers_name : copies_name;
}

// All groups of a mesh. `states`: the axes that the states of a unit are cut among; `chunks`: of each stage; `sharing`:
// stages next to each other whose layers share parameters.
std::vector<Group> make_groups(const Mesh& mesh, Axes states, int chunks, int sharing = 1);

}  // namespace zrt::runtime

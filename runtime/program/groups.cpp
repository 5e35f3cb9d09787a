#include "runtime/program/groups.h"

namespace zrt::runtime {

std::vector<Group> make_groups(const Mesh& mesh, Axes states, int chunks, int sharing) {
  std::vector<Group> all;
  const auto add = [&](const char* name, Axes axes) { all.push_back({axes, name, mesh.groups(axes)}); };
  const auto add_pairs = [&](std::string_view name, const RankGroups& ranks) {
    all.push_back({Axis::pipeline, std::string(name), ranks});
  };
  add("dp", data_axes);
  add("dp.inner", island_axes);
  add("dp.outer", outer_axes);
  for (int a = 0; a < core::axis_count; ++a) {
    const auto axis = static_cast<Axis>(a);
    if (core::axis_facts[a].group != nullptr && mesh.degree(axis) > 1) add(core::axis_facts[a].group, axis);
  }
  if (mesh.tensor() > 1) add("tp.dp", states | Axis::tensor);
  if (mesh.expert() > 1) {
    add("edp", core::expert_data_axes);
    if (mesh.tensor() > 1) add("tp.ep", Axis::tensor | Axis::expert);
  }
  if (mesh.everyone() == all_axes) add("world", all_axes);
  if (mesh.pipeline() == 1) return all;
  for (const bool forward : {true, false}) {
    for (const bool odd : {false, true}) add_pairs(link_name(odd, forward), mesh.neighbours(odd));
  }
  if (chunks > 1) {
    for (const bool forward : {true, false}) add_pairs(wrap_name(forward), mesh.ends());
  }
  add_pairs(copies_name, mesh.ends());
  if (sharing > 1) add_pairs(layers_name, mesh.stages_together(sharing));
  return all;
}

}  // namespace zrt::runtime

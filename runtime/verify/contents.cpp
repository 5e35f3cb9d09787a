#include "runtime/verify/contents.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {

Walk::Walk(const ProgramSet& all, const Program& one, const Layout& of, const std::vector<PartOrder>& by_block)
    : set(all), program(one), layout(of), orders(by_block) {
  uint32_t slots = 0;
  for (const Buffer& buffer : set.buffers) first_.push_back(slots), slots += buffer.slots;
  contents_.resize(slots);
}

const Access* Walk::find(Role role, size_t nth) {
  if (indexed_ != now.op) {
    for (auto& accesses : by_role_) accesses.clear();
    for (const Access& access : op().accesses) by_role_[static_cast<size_t>(access.role)].push_back(&access);
    indexed_ = now.op;
  }
  const auto& accesses = by_role_[static_cast<size_t>(role)];
  return nth < accesses.size() ? accesses[nth] : nullptr;
}

void Walk::fail(const Access& access, const std::string& what) const {
  throw Fault({&program, now, access.buffer},
              fmt::format("program '{}' is not safe: {} uses buffer '{}' but {}", program.phase, name(now),
                          set.buffers[access.buffer].name, what));
}

void Walk::fail(const std::string& what) const {
  throw Fault({&program, now}, fmt::format("program '{}' is not safe: {} {}", program.phase, name(now), what));
}

Spread gathered(const Walk& walk, uint32_t unit, Spread from) {
  const Layout& layout = walk.layout;
  const Axes group = walk.set.group(walk.op()).axes;
  const int shards = layout.units.units[unit].shards(), inner = layout.mesh.inner();
  if (shards == 1) return Spread::whole;
  const auto whole_if = [](bool whole, Spread otherwise) { return whole ? Spread::whole : otherwise; };
  if (group == layout.units.units[unit].shard_axes && group != island_axes) return Spread::whole;
  if (group == outer_axes) return whole_if(inner == 1, Spread::part);
  if (group == island_axes) return whole_if(from == Spread::part || shards == inner, Spread::own);
  return Spread::own;
}

std::string Walk::among(Axes axes) const {
  const auto group = std::find_if(set.groups.begin(), set.groups.end(), [&](const Group& g) { return g.axes == axes; });
  return group == set.groups.end() ? "among no group of ranks" : fmt::format("among the ranks of '{}'", group->name);
}

}  // namespace zrt::runtime::verification

#include "runtime/passes/collectives.h"

#include <fmt/format.h>

#include <algorithm>

namespace zrt::runtime {

using core::Category;

void place_in(ProgramSet& set, Op& op, GroupId group) {
  op.group = group;
  op.lane = set.lane(LaneKind::comm, set.groups[group].name);
}

void place_in(ProgramSet& set, Op& op, Axes group) {
  place_in(set, op, set.find_group(group));
}

void place_in(ProgramSet& set, Op& op, std::string_view group) {
  place_in(set, op, set.find_group(group));
}

std::vector<std::vector<uint32_t>> buckets(const Layout& layout, const std::vector<uint32_t>& units, int64_t limit) {
  std::vector<std::vector<uint32_t>> result;
  int64_t elements = 0;
  for (uint32_t u : units) {
    const int64_t size = layout.units.units[u].elements;
    const bool together = !result.empty() &&
                          layout.units.units[result.back().front()].shard_axes == layout.units.units[u].shard_axes &&
                          layout.units.units[result.back().front()].packed == layout.units.units[u].packed;
    if (!together || elements + size > limit) result.emplace_back(), elements = 0;
    result.back().push_back(u);
    elements += size;
  }
  return result;
}

std::string units_name(const Layout& layout, const std::vector<uint32_t>& units) {
  const std::string& first = layout.units.units[units.front()].name;
  return units.size() == 1 ? first : fmt::format("{} and {} more", first, units.size() - 1);
}

Collectives::Gather gather_in_place(const Layout& layout, OpKind kind, const char* name,
                                    const std::vector<uint32_t>& units, const std::vector<BufferId>& full,
                                    core::DType type, uint32_t block) {
  Collectives::Gather gather{kind, name + units_name(layout, units), block, units, {}, {}, type, false};
  for (uint32_t u : units) gather.part.push_back(no_buffer), gather.full.push_back(full[u]);
  return gather;
}

Op Collectives::make(OpKind kind, Axes group, std::string name, const std::vector<uint32_t>& units) {
  Op op;
  op.kind = kind;
  place_in(set_, op, group);
  op.name = std::move(name);
  op.units = units;
  return op;
}

BufferId Collectives::buffer(const std::string& name, Category category, uint64_t bytes) {
  const auto [found, inserted] = buffers_.try_emplace(name, no_buffer);
  if (inserted) found->second = set_.add({name, category, Life::transient, bytes});
  return found->second;
}

BufferId Collectives::partial(std::string_view purpose, uint32_t u, core::DType type) {
  const optimizer::Unit& unit = layout_.units.units[u];
  return buffer(fmt::format("{} part of {}", purpose, unit.name), Category::comm,
                static_cast<uint64_t>(unit.elements / layout_.mesh.inner()) * core::dtype_size(type));
}

void Collectives::gather(std::vector<Op>& ops, const Gather& what) {
  const bool keep = what.keep && layout_.groups.secondary;
  const bool two_levels = layout_.groups.hierarchical || keep;
  auto source = [&](Op& op, size_t i) {
    if (what.part[i] != no_buffer) op.accesses.push_back({what.part[i], Role::weight, Use::read, {}});
  };
  if (!two_levels) {
    Op op = make(what.kind, layout_.units.units[what.units[0]].shard_axes, what.name, what.units);
    op.block = what.block;
    for (size_t i = 0; i < what.units.size(); ++i) {
      source(op, i);
      const Use use = what.part[i] == no_buffer ? Use::update : Use::write;
      op.accesses.push_back({what.full[i], Role::full_state, use, {}});
      const optimizer::Unit& unit = layout_.units.units[what.units[i]];
      if (!unit.packed || unit.held.weights == optimizer::Extent::full || unit.shards() == 1) continue;
      const BufferId packed =
          buffer("packed " + unit.name, Category::comm, core::form_bytes(*unit.packed, unit.elements));
      op.accesses.push_back({packed, Role::packed, Use::write, {}});
    }
    ops.push_back(std::move(op));
    return;
  }
  std::vector<BufferId> parts(what.units.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < what.units.size(); ++i) {
    const uint32_t u = what.units[i];
    if (const auto found = kept_.find(u); keep && found != kept_.end()) {
      parts[i] = found->second;
      continue;
    }
    missing.push_back(i);
    parts[i] = partial(keep ? "secondary" : op_kind_name(what.kind), u, what.type);
    if (keep) {
      set_.buffers[parts[i]].category = Category::gathered;
      kept_[u] = parts[i];
    }
  }
  if (!missing.empty()) {
    std::vector<uint32_t> units;
    units.reserve(missing.size());
    for (size_t i : missing) units.push_back(what.units[i]);
    Op op = make(what.kind, outer_axes, what.name + " between groups", units);
    op.block = what.block;
    for (size_t i : missing) {
      source(op, i);
      if (what.part[i] == no_buffer) op.accesses.push_back({what.full[i], Role::full_state, Use::read, {}});
      op.accesses.push_back({parts[i], Role::partial, Use::write, {}});
    }
    ops.push_back(std::move(op));
  }
  Op op = make(what.kind, island_axes, what.name + " inside groups", what.units);
  op.block = what.block;
  for (size_t i = 0; i < what.units.size(); ++i) {
    op.accesses.push_back({parts[i], Role::partial, Use::read, {}});
    op.accesses.push_back({what.full[i], Role::full_state, Use::write, {}});
  }
  ops.push_back(std::move(op));
}

void Collectives::reduce(std::vector<Op>& ops, const Reduce& what) {
  const std::string name = "reduce " + units_name(layout_, what.units);
  auto target = [&](Op& op, size_t i) {
    op.accumulate.push_back(what.accumulate ? 1 : 0);
    if (what.local[i] == what.grad[i]) {
      op.accesses.push_back({what.grad[i], Role::grad, Use::update, {}});
    } else {
      op.accesses.push_back({what.grad[i], Role::grad, what.accumulate ? Use::update : Use::write, {}});
    }
  };
  if (!layout_.groups.hierarchical) {
    Op op = make(OpKind::reduce_grad, layout_.units.units[what.units[0]].shard_axes, name, what.units);
    for (size_t i = 0; i < what.units.size(); ++i) {
      if (what.local[i] != what.grad[i])
        op.accesses.push_back({what.local[i], Role::local_grad, Use::read, what.slot[i]});
      target(op, i);
    }
    ops.push_back(std::move(op));
    // The sums of all groups come together once a step: they accumulate inside a group meanwhile.
    if (!layout_.groups.replicated || !what.last) return;
    const optimizer::Unit& unit = layout_.units.units[what.units[0]];
    const Axes others = unit.replica_axes().without(unit.shard_axes);
    Op between = make(OpKind::reduce_grad, others, name + " between groups", what.units);
    for (size_t i = 0; i < what.units.size(); ++i) {
      between.accesses.push_back({what.grad[i], Role::grad, Use::update, {}});
    }
    ops.push_back(std::move(between));
    return;
  }
  Op inside = make(OpKind::reduce_grad, island_axes, name + " inside groups", what.units);
  Op between = make(OpKind::reduce_grad, outer_axes, name + " between groups", what.units);
  for (size_t i = 0; i < what.units.size(); ++i) {
    const BufferId part = partial("reduced", what.units[i], layout_.local_grad);
    inside.accesses.push_back({what.local[i], Role::local_grad, Use::read, what.slot[i]});
    inside.accesses.push_back({part, Role::partial, Use::write, {}});
    between.accesses.push_back({part, Role::partial, Use::read, {}});
    target(between, i);
  }
  ops.push_back(std::move(inside));
  ops.push_back(std::move(between));
}

}  // namespace zrt::runtime

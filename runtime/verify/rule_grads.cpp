#include <fmt/format.h>

#include "runtime/verify/fault.h"
#include "runtime/verify/rules.h"

namespace zrt::runtime::verification {
namespace {

// Says where a collective on gradients reads one unit and where it leaves the result; equal when it works in place.
struct Route {
  const Access *from, *to;
};

Route route(Walk& walk, size_t i) {
  const Access *partial = walk.find(Role::partial, i), *local = walk.find(Role::local_grad, i);
  const Access *grad = walk.find(Role::grad, i), *whole = walk.find(Role::full_state, i);
  auto written = [](const Access* access) { return access && access->use != Use::read; };
  Route route{};
  route.from = local ? local : partial && partial->use != Use::write ? partial : grad ? grad : whole;
  route.to = written(grad) ? grad : written(whole) ? whole : written(partial) ? partial : route.from;
  if (!route.from || route.to->use == Use::read) {
    walk.fail(fmt::format("takes the gradient of '{}' from nowhere or to nowhere", walk.unit_name(walk.op().units[i])));
  }
  return route;
}

}  // namespace

// A program with late updates begins with the sums that the last step left.
GradRule::GradRule(Walk& walk) : walk_(walk) {
  const auto& units = walk.layout.units.units;
  if (!walk.layout.late_updates()) return;
  kept_.assign(units.size(), no_buffer);
  left_by_.assign(walk.set.buffers.size(), nullptr);
  const auto keep = [&](BufferId buffer, uint32_t unit) {
    const Buffer& of = walk.set.buffers[buffer];
    if (of.life == Life::carried && of.category == core::Category::grads && unit < units.size()) kept_[unit] = buffer;
  };
  for (const Program& program : walk.set.programs) {
    for (const Op& op : program.ops) {
      size_t nth = 0;
      for (const Access& access : op.accesses) {
        if (access.role == Role::grad && nth < op.units.size()) keep(access.buffer, op.units[nth++]);
        if (transfers(op.kind) && !op.units.empty()) keep(access.buffer, op.units[0]);
        if (access.use != Use::read && program.phase == "step") left_by_[access.buffer] = &op;
      }
    }
  }
  if (walk.program.phase != "step" && walk.program.phase != "update") return;
  for (uint32_t u = 0; u < units.size(); ++u) {
    if (kept_[u] == no_buffer) continue;
    Content& content = walk.at(kept_[u], 0);
    content.unit = u;
    content.summed = complete(u);
    content.windows = windows();
    content.spread = reach(u);
  }
}

Spread GradRule::reach(uint32_t unit) const {
  const optimizer::Unit& of = walk_.layout.units.units[unit];
  return of.held.states == optimizer::Extent::full || of.shards() == 1 ? Spread::whole : Spread::own;
}

std::string GradRule::maker(const Content& content) const {
  if (content.changed.known() || kept_.empty() || content.unit == none) return walk_.name(content.changed);
  const Op* left_by = left_by_[kept_[content.unit]];
  return left_by ? fmt::format("'{}' of the step before", left_by->name) : walk_.name(content.changed);
}

void GradRule::read() {
  const Op& op = walk_.op();
  const bool updates = op.kind == OpKind::update || op.kind == OpKind::propose;
  if (op.kind != OpKind::norm && op.kind != OpKind::sum && !updates) return;
  const bool whole = updates && walk_.layout.units.units[op.units[0]].held.states == optimizer::Extent::full;
  for (const Access& access : op.accesses) {
    if (access.role == Role::grad) require_sum(access, op.units[0], whole, complete(op.units[0]));
  }
}

void GradRule::write() {
  const Op& op = walk_.op();
  const size_t made = op.makes_gradients() ? walk_.layout.units.trained(op.units) : 0;
  for (size_t i = 0; i < made; ++i) backward(i);
  for (size_t i = 0; i < op.units.size(); ++i) {
    if (op.kind == OpKind::reduce_grad) reduce(i);
    if (op.kind == OpKind::gather_grad) gather(i);
  }
  if (op.kind != OpKind::update && op.kind != OpKind::propose) return;
  for (const Access& access : op.accesses) {
    if (access.role != Role::grad) continue;
    walk_.at(access).used = true;
    if (!kept_.empty()) walk_.at(kept_[op.units[0]], 0).used = true;  // of which that may be a copy
  }
}

// A step leaves every sum to the updates of what follows, and the program of updates leaves none.
void GradRule::end() const {
  const bool step = walk_.program.phase == "step";
  if (kept_.empty() || (!step && walk_.program.phase != "update")) return;
  for (uint32_t u = 0; u < kept_.size(); ++u) {
    if (kept_[u] == no_buffer) continue;
    const Content& content = walk_.at(kept_[u], 0);
    const bool left = content.spread == reach(u) && !content.used && content.unit == u &&
                      content.summed == complete(u) && content.windows == windows();
    if (left == step || walk_.program.ops.size() < 2) continue;
    const auto& ops = walk_.program.ops;
    throw Fault({&walk_.program, content.changed, kept_[u], u},
                fmt::format("program '{}' is not safe: at its end '{}' holds {}; {} left it, and its last ops are '{}' "
                            "and '{}'",
                            walk_.program.phase, walk_.set.buffers[kept_[u]].name,
                            step ? "no gradient of this step that the updates of the next one could use"
                                 : "a gradient that no update has used",
                            maker(content), ops[ops.size() - 2].name, ops.back().name));
  }
}

void GradRule::require_unit(const Access& access, const Content& content, uint32_t unit) const {
  if (content.unit == unit) return;
  walk_.fail(access, fmt::format("means the gradient of '{}', and {} left there that of '{}'", walk_.unit_name(unit),
                                 maker(content), content.unit == none ? "no unit" : walk_.unit_name(content.unit)));
}

// Nothing that somebody still means to reduce or to update with may be overwritten.
void GradRule::require_dead(const Access& access) const {
  const Content& content = walk_.at(access);
  if (content.unit == none || content.used) return;
  walk_.fail(access, fmt::format("must add to the gradient of '{}': it overwrites what {} left there, which no op has "
                                 "used",
                                 walk_.unit_name(content.unit), maker(content)));
}

// The first contribution of a window defines a gradient, all later ones add to it, later blocks before earlier ones
// and microbatches in order: a sum of rounded numbers depends on it.
void GradRule::backward(size_t i) {
  const Op& op = walk_.op();
  const uint32_t unit = op.units[i], microbatch = walk_.microbatch();
  const uint32_t window = microbatch / walk_.layout.reduce_every;
  const Access& access = *walk_.find(Role::local_grad, i);
  Content& content = walk_.at(access);
  const bool adds = op.accumulate[i] != 0;
  // Another run of parts of the block, whose gradients lie beside those of the run before.
  const bool goes_on = op.parts.end < walk_.layout.model->blocks[op.block]->anatomy().all().end;
  if (goes_on) {
    const bool same = content.unit == unit && content.block == op.block && content.microbatch == microbatch &&
                      !content.used && content.summed == Summed::rank && content.adds == adds &&
                      access.use == Use::update;
    if (!same) {
      walk_.fail(access, fmt::format("goes on with the gradient of '{}', which no run of parts has begun for this "
                                     "microbatch. What it follows is {}",
                                     walk_.unit_name(unit), walk_.name(before(walk_.program, walk_.now))));
    }
    content.changed = walk_.now;
    return;
  }
  if (adds != (access.use == Use::update)) {
    walk_.fail(
        access,
        fmt::format("must {} the gradient of '{}': its flag and its access differ. What it follows is {}",
                    adds ? "define" : "add to", walk_.unit_name(unit), walk_.name(before(walk_.program, walk_.now))));
  }
  if (!adds) {
    require_dead(access);
    content.unit = unit;
    content.summed = Summed::rank;
    content.spread = Spread::whole;
    content.used = false;
    content.backwards = content.windows = 0;
  } else {
    require_unit(access, content, unit);
    if (content.used || content.summed != Summed::rank) {
      walk_.fail(access, fmt::format("must define the gradient of '{}': {} has reduced what it adds to",
                                     walk_.unit_name(unit), maker(content)));
    }
    if (content.window != window) {
      walk_.fail(access, fmt::format("it works on microbatch {} and {} on microbatch {} of another window", microbatch,
                                     maker(content), content.microbatch));
    }
    const bool in_order = op.block < content.block || (op.block == content.block && microbatch > content.microbatch);
    if (!in_order) {
      walk_.fail(access,
                 fmt::format("adds microbatch {} of block {} behind {}, microbatch {} of block {}: gradients are "
                             "summed from the last block to the first and in order of microbatches",
                             microbatch, op.block, maker(content), content.microbatch, content.block));
    }
  }
  ++content.backwards;
  content.adds = adds;
  content.window = window;
  content.block = op.block;
  content.microbatch = microbatch;
  content.changed = walk_.now;
}

void GradRule::reduce(size_t i) {
  const Op& op = walk_.op();
  const Layout& layout = walk_.layout;
  const Axes group = walk_.set.group(op).axes;
  const bool one_island = layout.mesh.inner() == layout.mesh.data();
  const uint32_t unit = op.units[i];
  const auto [from, to] = route(walk_, i);
  Content& source = walk_.at(*from);
  if (group == Axis::pipeline) return add_up(*from, unit, Summed::copies);
  if (group == Axis::tensor) return add_up(*from, unit, Summed::shares);
  require_unit(*from, source, unit);
  Content result = source;
  if (source.summed == Summed::rank) {
    const uint32_t expected = layout.reduce_every * static_cast<uint32_t>(layout.units.units[unit].blocks.size());
    if (source.used || source.backwards != expected) {
      walk_.fail(*from,
                 fmt::format("reduces the gradient of '{}' after {} backwards, the last of them {}; a window has "
                             "{}",
                             walk_.unit_name(unit), source.used ? 0 : source.backwards, maker(source), expected));
    }
    result.windows = 1;
    if (group == outer_axes && layout.mesh.inner() > 1) {
      walk_.fail(*from, fmt::format("sums the gradient of '{}' over groups, and {} is not followed by a sum inside "
                                    "them",
                                    walk_.unit_name(unit), maker(source)));
    }
  } else if ((source.summed == Summed::all && !one_island) || group != outer_axes || source.used) {
    walk_.fail(*from, fmt::format("sums the gradient of '{}' again after {}", walk_.unit_name(unit), maker(source)));
  }
  const bool done = group != island_axes || one_island;
  result.summed = done ? Summed::all : Summed::inner;
  result.spread = layout.units.units[unit].shards() == 1 ? Spread::whole : Spread::own;
  result.backwards = 0;
  const bool adds = i < op.accumulate.size() && op.accumulate[i] != 0;
  if (from == to && adds) {
    walk_.fail(*to, fmt::format("must define the sum of '{}': it adds to what {} left, which is part of the sum",
                                walk_.unit_name(unit), maker(source)));
  }
  if (from != to) {
    source.used = true;
    Content& target = walk_.at(*to);
    // Without adding, an update leaves the sum in a part of what it was made of.
    const bool part = to->use == Use::update && target.unit == unit && target.used && target.summed == Summed::rank;
    if (adds != (to->use == Use::update) && !(part && !adds)) {
      walk_.fail(*to, fmt::format("must {} the gradient of '{}': its flag and its access differ. What it follows is {}",
                                  adds ? "define" : "add to", walk_.unit_name(unit), maker(result)));
    }
    if (adds) {
      require_unit(*to, target, unit);
      if (target.used || target.summed != result.summed || target.window >= result.window) {
        walk_.fail(*to, fmt::format("adds window {} of '{}' to what {} left, which is of window {} and not to be added "
                                    "to",
                                    result.window, walk_.unit_name(unit), maker(target), target.window));
      }
      result.windows += target.windows;
    } else {
      require_dead(*to);
    }
  }
  result.used = false;
  result.changed = walk_.now;
  Content& target = walk_.at(*to);
  result.made = target.made;
  result.role = target.role;
  target = result;
}

// Copies, or what each rank has a part of, are added up for the whole step at once, when every summand is complete.
void GradRule::add_up(const Access& access, uint32_t unit, Summed as) {
  const optimizer::Unit& of = walk_.layout.units.units[unit];
  if (as == Summed::copies ? !of.copied : of.gradient_axes.within(data_axes)) {
    walk_.fail(access, fmt::format("adds up {} of '{}', of which there are none",
                                   as == Summed::copies ? "copies" : "shares", walk_.unit_name(unit)));
  }
  require_sum(access, unit, false, Summed::all);
  Content& content = walk_.at(access);
  content.summed = as;
  content.changed = walk_.now;
}

void GradRule::gather(size_t i) {
  const auto [from, to] = route(walk_, i);
  const uint32_t unit = walk_.op().units[i];
  require_sum(*from, unit, false, complete(unit));
  Content result = walk_.at(*from);
  if (from->role == Role::partial && result.spread != Spread::part) {
    walk_.fail(*from, fmt::format("{} left no part of a gather between groups there", maker(result)));
  }
  if (from == to && result.spread == Spread::whole && walk_.layout.units.units[unit].shards() > 1) {
    walk_.fail(
        *to, fmt::format("gathers the gradient of '{}' where {} left all of it", walk_.unit_name(unit), maker(result)));
  }
  result.spread = gathered(walk_, unit, from->role == Role::partial ? result.spread : Spread::own);
  result.changed = walk_.now;
  walk_.at(*to) = result;
}

void GradRule::require_sum(const Access& access, uint32_t unit, bool whole, Summed over) {
  const Content& content = walk_.at(access);
  require_unit(access, content, unit);
  if (content.summed != over) {
    const optimizer::Unit& of = walk_.layout.units.units[unit];
    const bool twice = content.summed == Summed::copies || content.summed == Summed::shares;
    const bool copies = over != Summed::all && content.summed == Summed::all;
    const Axes others = of.copied ? Axes(Axis::pipeline) : of.gradient_axes.without(data_axes);
    walk_.fail(access, fmt::format("{} left there what is {}, {}", maker(content),
                                   twice    ? "summed over all copies already"
                                   : copies ? "not yet summed over all copies; their sum is missing"
                                            : "not yet summed over all ranks; a reduction is missing",
                                   walk_.among(twice || copies ? others : of.shard_axes)));
  }
  if (content.windows != windows()) {
    walk_.fail(access, fmt::format("{} left there the gradient of '{}' of {} windows; a step has {}", maker(content),
                                   walk_.unit_name(unit), content.windows, windows()));
  }
  if (!whole || content.spread == Spread::whole) return;
  walk_.fail(access, fmt::format("{} left only this rank's part of the gradient of '{}' there; a gather is missing, {}",
                                 maker(content), walk_.unit_name(unit),
                                 walk_.among(walk_.layout.units.units[unit].shard_axes)));
}

}  // namespace zrt::runtime::verification

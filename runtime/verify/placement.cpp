#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/verify/checks.h"
#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {
namespace {

uint64_t end_of(const Buffer& buffer) {
  return buffer.offset + buffer.slots * buffer.stride();
}

// "used from 'a' to 'b'": the first and the last op of any program that names the buffer.
std::string users(const ProgramSet& set, BufferId id) {
  const Op *first = nullptr, *last = nullptr;
  for (const Program& program : set.programs) {
    for (const Op& op : program.ops) {
      const bool uses = std::any_of(op.accesses.begin(), op.accesses.end(),
                                    [&](const Access& access) { return access.buffer == id; });
      if (!uses) continue;
      if (!first) first = &op;
      last = &op;
    }
  }
  return first ? fmt::format("used from '{}' to '{}'", first->name, last->name) : "used by no op";
}

// Sweeps the buffers of a tier by offset: a kept one must begin behind all before it, and all behind it.
void check_kept(const ProgramSet& set, core::Tier tier) {
  std::vector<BufferId> order;
  for (BufferId b = 0; b < set.buffers.size(); ++b) {
    if (set.buffers[b].tier == tier) order.push_back(b);
  }
  std::sort(order.begin(), order.end(),
            [&](BufferId a, BufferId b) { return set.buffers[a].offset < set.buffers[b].offset; });
  auto kept = [&](BufferId id) { return set.buffers[id].life != Life::transient; };
  BufferId furthest = no_buffer, furthest_kept = no_buffer;
  for (BufferId id : order) {
    const BufferId before = kept(id) ? furthest : furthest_kept;
    if (before != no_buffer && end_of(set.buffers[before]) > set.buffers[id].offset) {
      throw Fault({nullptr, {}, id},
                  fmt::format("buffers '{}' ({}) and '{}' ({}) share bytes, but one of them is kept between programs",
                              set.buffers[before].name, users(set, before), set.buffers[id].name, users(set, id)));
    }
    auto advance = [&](BufferId& last) {
      if (last == no_buffer || end_of(set.buffers[id]) > end_of(set.buffers[last])) last = id;
    };
    advance(furthest);
    if (kept(id)) advance(furthest_kept);
  }
}

}  // namespace

void check_placement(const ProgramSet& set, const TierBytes& budgets) {
  for (BufferId id = 0; id < set.buffers.size(); ++id) {
    const Buffer& buffer = set.buffers[id];
    const auto tier = static_cast<size_t>(buffer.tier);
    const uint64_t end = buffer.offset + buffer.extent();
    if (end > set.arena_bytes[tier]) {
      throw Fault({nullptr, {}, id}, fmt::format("buffer '{}' ({}) ends at byte {}, behind the arena of {}",
                                                 buffer.name, users(set, id), end, set.arena_bytes[tier]));
    }
    if (end > budgets[tier]) {
      throw Fault({nullptr, {}, id},
                  fmt::format("buffer '{}' ({}) ends at byte {}, above the budget of {} bytes of the {} tier",
                              buffer.name, users(set, id), end, budgets[tier], core::tier_names[tier]));
    }
  }
  for (size_t t = 0; t < core::tier_count; ++t) check_kept(set, static_cast<core::Tier>(t));
}

}  // namespace zrt::runtime::verification

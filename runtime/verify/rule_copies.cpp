#include <fmt/format.h>

#include "core/error.h"
#include "runtime/verify/rules.h"

namespace zrt::runtime::verification {

CopyRule::CopyRule(Walk& walk) : walk_(walk) {
  uint32_t slots = 0;
  for (const Buffer& buffer : walk.set.buffers) first_.push_back(slots), slots += buffer.slots;
  slots_.resize(slots);
  for (BufferId b = 0; b < walk.set.buffers.size(); ++b) {
    for (uint32_t s = 0; s < walk.set.buffers[b].slots; ++s) slots_[first_[b] + s].buffer = b;
  }
}

uint32_t CopyRule::slot(const Access& access) const {
  return first_[access.buffer] + access.slot.at(walk_.now.turn);
}

bool CopyRule::transfers() const {
  return walk_.op().kind == OpKind::fetch || walk_.op().kind == OpKind::evict;
}

// Between which tiers an op moves, on the lane that is for it, and as many bytes as both sides have.
void CopyRule::check_transfer(const Access& from, const Access& to) const {
  const Op& op = walk_.op();
  const Buffer &source = walk_.set.buffers[from.buffer], &target = walk_.set.buffers[to.buffer];
  const bool file = source.tier == Tier::nvme || target.tier == Tier::nvme;
  if (source.tier == target.tier || (file && (source.tier == Tier::device || target.tier == Tier::device))) {
    walk_.fail(from, fmt::format("nothing moves from the {} tier to the {} tier at once",
                                 core::tier_names[static_cast<size_t>(source.tier)],
                                 core::tier_names[static_cast<size_t>(target.tier)]));
  }
  const LaneKind kind = walk_.set.lanes[op.lane].kind;
  const LaneKind expected = file ? LaneKind::io : target.tier == Tier::device ? LaneKind::to_device : LaneKind::to_host;
  if (kind != expected) {
    walk_.fail(from, fmt::format("moves it on the lane '{}', which is not for this direction",
                                 walk_.set.lanes[op.lane].name()));
  }
  const uint64_t bytes = op.shard_bytes > 0 ? op.shard_bytes : source.bytes;
  const bool fits =
      op.shard_bytes > 0 ? source.bytes >= bytes && target.bytes >= bytes && !file : target.bytes == bytes;
  if (!fits) {
    walk_.fail(from,
               fmt::format("moves {} bytes of its {} to '{}' of {}", bytes, source.bytes, target.name, target.bytes));
  }
}

void CopyRule::read() {
  if (transfers()) {
    const Access *from = walk_.find(Role::copied, 0), *to = walk_.find(Role::copy, 0);
    if (!from || !to) walk_.fail("moves from nowhere or to nowhere");
    check_transfer(*from, *to);
  }
  for (const Access& access : walk_.op().accesses) {
    if (access.use == Use::write) continue;
    const Slot& held = slots_[slot(access)];
    if (held.origin != none && held.revision != slots_[held.origin].revision) {
      walk_.fail(access, fmt::format("what it is a copy of, '{}', has changed since",
                                     walk_.set.buffers[slots_[held.origin].buffer].name));
    }
    const bool evicts_into = walk_.op().kind == OpKind::evict && access.role == Role::copy;
    if (held.newer_copy.known() && !evicts_into) {
      walk_.fail(access,
                 fmt::format("{} has changed a copy of it that did not come home", walk_.name(held.newer_copy)));
    }
  }
}

void CopyRule::write() {
  if (transfers()) {
    Slot &from = slots_[slot(*walk_.find(Role::copied, 0))], &to = slots_[slot(*walk_.find(Role::copy, 0))];
    const uint32_t source = slot(*walk_.find(Role::copied, 0)), target = slot(*walk_.find(Role::copy, 0));
    if (walk_.op().kind == OpKind::fetch) {
      to.origin = from.origin != none ? from.origin : source;
      to.revision = slots_[to.origin].revision;
      return;
    }
    // What goes home: the copy is then like it again. In between, a copy of the copy takes its place.
    const bool home = to.origin == none || walk_.set.buffers[to.buffer].life != Life::transient;
    if (home) {
      ++to.revision;
      to.newer_copy = {};
      from.origin = target;
      from.revision = to.revision;
    } else {
      to.origin = from.origin;
      to.revision = from.revision;
    }
    return;
  }
  for (const Access& access : walk_.op().accesses) {
    if (access.use == Use::read) continue;
    Slot& written = slots_[slot(access)];
    if (access.use == Use::write) written.origin = none;  // something else, or all of it anew
    if (written.origin != none) {
      slots_[written.origin].newer_copy = walk_.now;
    } else {
      ++written.revision;
      written.newer_copy = {};
    }
  }
}

void CopyRule::end() const {
  for (const Slot& held : slots_) {
    if (!held.newer_copy.known() || walk_.set.buffers[held.buffer].life != Life::carried) continue;
    throw core::ProgramError(fmt::format("program '{}' is not safe: {} changes a copy of '{}' that does not come home",
                                         walk_.program.phase, walk_.name(held.newer_copy),
                                         walk_.set.buffers[held.buffer].name));
  }
}

}  // namespace zrt::runtime::verification

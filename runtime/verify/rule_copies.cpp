#include <fmt/format.h>

#include "runtime/verify/fault.h"
#include "runtime/verify/rules.h"

namespace zrt::runtime::verification {

CopyRule::CopyRule(Walk& walk, const Families& families)
    : walk_(walk), families_(families), held_(walk.set.buffers.size(), none), latest_(held_.size()) {
  for (BufferId b = 0; b < held_.size(); ++b) {
    if (walk.set.buffers[b].life == Life::carried) held_[b] = 0;
  }
}

bool CopyRule::transfers() const {
  return runtime::transfers(walk_.op().kind);
}

// An op moves between two neighbouring tiers, on the lane that is for it, as many bytes as both sides have.
void CopyRule::check_transfer(const Access& from, const Access& to) const {
  const Op& op = walk_.op();
  const Buffer &source = walk_.set.buffers[from.buffer], &target = walk_.set.buffers[to.buffer];
  const bool file = source.tier == Tier::nvme || target.tier == Tier::nvme;
  if (source.tier == target.tier || (file && (source.tier == Tier::device || target.tier == Tier::device))) {
    walk_.fail(from, fmt::format("nothing moves from the {} tier to the {} tier at once",
                                 core::tier_names[static_cast<size_t>(source.tier)],
                                 core::tier_names[static_cast<size_t>(target.tier)]));
  }
  if (file && !(source.tier == Tier::nvme ? target : source).whole_blocks) {
    const Access& memory = source.tier == Tier::nvme ? to : from;
    walk_.fail(memory,
               "a file takes whole blocks, which it does not consist of" + other_user(walk_.set, op, memory.buffer));
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
    const uint32_t family = families_.of(access.buffer);
    // The op does not read what a shard is moved into.
    if (family == none || access.use == Use::write || access.role == Role::copy) continue;
    const Latest& latest = latest_[family];
    if (held_[access.buffer] == latest.version) continue;
    walk_.fail(access, fmt::format("what lies there is old: {} left '{}', of which the one is a copy of the other",
                                   walk_.name(latest.made), walk_.set.buffers[latest.buffer].name));
  }
}

void CopyRule::write() {
  if (transfers()) {
    held_[walk_.find(Role::copy, 0)->buffer] = held_[walk_.find(Role::copied, 0)->buffer];
    return;
  }
  for (const Access& access : walk_.op().accesses) {
    const uint32_t family = families_.of(access.buffer);
    if (family == none || access.use == Use::read) continue;
    Latest& latest = latest_[family];
    latest.buffer = access.buffer;
    latest.made = walk_.now;
    held_[access.buffer] = ++latest.version;
  }
}

void CopyRule::end() const {
  for (BufferId b = 0; b < held_.size(); ++b) {
    if (families_.of(b) == none || walk_.set.buffers[b].life != Life::carried) continue;
    const Latest& latest = latest_[families_.of(b)];
    if (held_[b] == latest.version) continue;
    throw Fault(
        {&walk_.program, {}, b},
        fmt::format("program '{}' is not safe: '{}' is old at its end: {} left '{}', a copy that is not evicted",
                    walk_.program.phase, walk_.set.buffers[b].name, walk_.name(latest.made),
                    walk_.set.buffers[latest.buffer].name));
  }
}

}  // namespace zrt::runtime::verification

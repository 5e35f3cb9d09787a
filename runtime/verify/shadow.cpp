#include "runtime/verify/shadow.h"

#include <algorithm>

namespace zrt::runtime::verification {

Shadow::Shadow(const ProgramSet& set) : set_(set) {
  SlotId slots = 0;
  for (const Buffer& buffer : set.buffers) first_.push_back(slots), slots += buffer.slots;
  first_.push_back(slots);
  whole_.resize(slots);
  takers_.resize(slots);
}

BufferId Shadow::buffer(SlotId slot) const {
  return static_cast<BufferId>(std::upper_bound(first_.begin(), first_.end(), slot) - first_.begin() - 1);
}

Shadow::Range Shadow::range(SlotId slot) const {
  const BufferId id = buffer(slot);
  const Buffer& buffer = set_.buffers[id];
  const uint64_t begin = buffer.offset + (slot - first_[id]) * buffer.stride();
  return {static_cast<size_t>(buffer.tier), begin, begin + buffer.stride()};
}

Stretch& Shadow::take(SlotId slot, Execute by, const std::function<void(const Stretch&)>& leaves) {
  const Range range = this->range(slot);
  auto& stretches = tiers_[range.tier];
  auto it = stretches.lower_bound(range.begin);
  if (it != stretches.begin() && std::prev(it)->second.end > range.begin) --it;
  while (it != stretches.end() && it->first < range.end) {
    const uint64_t begin = it->first;
    const Stretch stretch = it->second;
    leaves(stretch);
    if (stretch.owner != slot && whole_[stretch.owner] == &it->second) {
      whole_[stretch.owner] = nullptr;
      takers_[stretch.owner] = {slot, by, true};
    }
    it = stretches.erase(it);
    // The bytes that stick out keep their history: somebody may still be using them.
    if (begin < range.begin) {
      Stretch& left = stretches.emplace(begin, stretch).first->second;
      left.end = range.begin;
    }
    if (stretch.end > range.end) it = stretches.emplace(range.end, stretch).first;
  }
  Stretch& taken = stretches.emplace_hint(it, range.begin, Stretch{range.end, slot, by, true, {}})->second;
  whole_[slot] = &taken;
  return taken;
}

}  // namespace zrt::runtime::verification

#include "runtime/verify/contents.h"

#include <fmt/format.h>

#include "core/error.h"

namespace zrt::runtime::verification {

Walk::Walk(const ProgramSet& all, const Program& one, const Layout& of) : set(all), program(one), layout(of) {
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
  throw core::ProgramError(fmt::format("program '{}' is not safe: {} uses buffer '{}' but {}", program.phase, name(now),
                                       set.buffers[access.buffer].name, what));
}

void Walk::fail(const std::string& what) const {
  throw core::ProgramError(fmt::format("program '{}' is not safe: {} {}", program.phase, name(now), what));
}

Spread gathered(const Layout& layout, GroupKind group, Spread from) {
  if (layout.shards() == 1) return Spread::whole;
  switch (group) {
    case GroupKind::data:
      return layout.shards() == layout.dp ? Spread::whole : Spread::own;
    case GroupKind::world:
    case GroupKind::even_forward:
    case GroupKind::odd_forward:
    case GroupKind::even_backward:
    case GroupKind::odd_backward:
    case GroupKind::wrap_forward:
    case GroupKind::wrap_backward:
    case GroupKind::copies:
    case GroupKind::tensor:
    case GroupKind::holders:
      break;
    case GroupKind::data_outer:
      return layout.groups.inner == 1 ? Spread::whole : Spread::part;
    case GroupKind::data_inner:
      return from == Spread::part || layout.shards() == layout.groups.inner ? Spread::whole : Spread::own;
  }
  return Spread::own;
}

}  // namespace zrt::runtime::verification

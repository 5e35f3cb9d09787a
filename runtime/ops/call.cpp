#include "runtime/ops/call.h"

namespace zrt::runtime {

const Access* OpCall::find(Role role, size_t nth) const {
  for (const Access& access : op.accesses) {
    if (access.role == role && nth-- == 0) return &access;
  }
  return nullptr;
}

std::byte* OpCall::address(const Access& access) const {
  const Buffer& buffer = set_.buffers[access.buffer];
  return arenas_[static_cast<size_t>(buffer.tier)]->data() + buffer.offset +
         access.slot_of(buffer, iteration) * buffer.stride();
}

std::byte* OpCall::at(Role role, size_t nth) const {
  const Access* access = find(role, nth);
  return access ? address(*access) : nullptr;
}

}  // namespace zrt::runtime

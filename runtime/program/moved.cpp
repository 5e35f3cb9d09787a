#include "runtime/program/moved.h"

namespace zrt::runtime {

Moved& Moved::operator+=(const Moved& other) {
  to_device += other.to_device, to_host += other.to_host, read += other.read, written += other.written;
  return *this;
}
Moved Moved::operator-(const Moved& other) const {
  return {to_device - other.to_device, to_host - other.to_host, read - other.read, written - other.written};
}

Moved moved(const ProgramSet& set, const Op& op) {
  Moved moved;
  const Buffer *from = nullptr, *to = nullptr;
  for (const Access& access : op.accesses) {
    (access.role == Role::copied ? from : to) = &set.buffers[access.buffer];
  }
  if (from->tier == core::Tier::nvme) {
    moved.read = from->padded();
  } else if (to->tier == core::Tier::nvme) {
    moved.written = to->padded();
  } else {
    (to->tier == core::Tier::device ? moved.to_device : moved.to_host) =
        op.shard_bytes > 0 ? op.shard_bytes : from->bytes;
  }
  return moved;
}

Moved forecast_moved(const ProgramSet& set, const Program& program) {
  Moved sum;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t) {
    if (transfers(program.ops[id].kind)) sum += moved(set, program.ops[id]);
  });
  return sum;
}

}  // namespace zrt::runtime

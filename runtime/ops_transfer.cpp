#include <cstring>

#include "runtime/executor.h"
#include "runtime/ops.h"

namespace zrt::runtime {
namespace {

// An address in memory. Where only this rank's shard moves, a side that holds the whole unit has it at its place.
std::byte* address(const OpCall& call, const Access& access) {
  const uint64_t part = call.op.shard_bytes;
  const bool whole = part > 0 && call.bytes(access) > part;
  return call.address(access) +
         (whole ? static_cast<uint64_t>(call.rank.layout->shard_of(call.rank.number)) * part : 0);
}

uint64_t place_in_file(const OpCall& call, const Access& access) {
  return call.buffer(access).offset + access.slot.at(call.iteration) * call.buffer(access).stride();
}

}  // namespace

Moved moved(const ProgramSet& set, const Op& op) {
  Moved moved;
  const Buffer *from = nullptr, *to = nullptr;
  for (const Access& access : op.accesses) {
    (access.role == Role::copied ? from : to) = &set.buffers[access.buffer];
  }
  if (from->tier == Tier::nvme) {
    moved.read = from->padded();
  } else if (to->tier == Tier::nvme) {
    moved.written = to->padded();
  } else {
    (to->tier == Tier::device ? moved.to_device : moved.to_host) = op.shard_bytes > 0 ? op.shard_bytes : from->bytes;
  }
  return moved;
}

Moved forecast_moved(const ProgramSet& set, const Program& program) {
  Moved sum;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t) {
    const OpKind kind = program.ops[id].kind;
    if (kind == OpKind::fetch || kind == OpKind::evict) sum += moved(set, program.ops[id]);
  });
  return sum;
}

void run_transfer(const OpCall& call) {
  const Access &from = *call.find(Role::copied), &to = *call.find(Role::copy);
  const Buffer &source = call.buffer(from), &target = call.buffer(to);
  if (source.tier == Tier::nvme) {
    call.rank.file->read(place_in_file(call, from), call.address(to), source.padded());
  } else if (target.tier == Tier::nvme) {
    std::memset(call.address(from) + source.bytes, 0, source.padded() - source.bytes);
    call.rank.file->write(place_in_file(call, to), call.address(from), target.padded());
  } else {
    offload::PacedLink& link = target.tier == Tier::device ? *call.rank.up : *call.rank.down;
    const Moved bytes = moved(call.set(), call.op);
    link.copy(address(call, to), address(call, from), bytes.to_device + bytes.to_host);
  }
}

}  // namespace zrt::runtime

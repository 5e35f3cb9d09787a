#include <cstring>

#include "runtime/ops/aliases.h"
#include "runtime/ops/call.h"
#include "runtime/ops/spec.h"
#include "runtime/program/moved.h"

namespace zrt::runtime {
namespace {

// An address in memory. Where only this rank's shard moves, a side that holds the whole unit has it at its place.
std::byte* address(const OpCall& call, const Access& access) {
  const uint64_t part = call.op.shard_bytes;
  const bool whole = part > 0 && call.bytes(access) > part;
  return call.address(access) +
         (whole ? static_cast<uint64_t>(call.rank.layout->mesh.place(call.unit(0).shard_axes, call.rank.number)) * part
                : 0);
}

uint64_t place_in_file(const OpCall& call, const Access& access) {
  return call.buffer(access).offset +
         access.slot_of(call.buffer(access), call.iteration) * call.buffer(access).stride();
}

void run_transfer(const OpCall& call) {
  const Access &from = *call.find(Role::copied), &to = *call.find(Role::copy);
  const Buffer &source = call.buffer(from), &target = call.buffer(to);
  if (source.tier == Tier::nvme) {
    call.rank.file->read(place_in_file(call, from), call.address(to), source.padded());
  } else if (target.tier == Tier::nvme) {
    std::memset(call.address(from) + source.bytes, 0, source.padded() - source.bytes);
    const Alias* alias = call.rank.aliases ? call.rank.aliases->find(to.buffer) : nullptr;
    if (alias) {
      const uint64_t of = call.set().buffers[alias->of].offset;
      call.rank.file->write_alias(place_in_file(call, to), call.address(from), target.padded(), of, alias->parts);
    } else {
      call.rank.file->write(place_in_file(call, to), call.address(from), target.padded());
    }
  } else {
    offload::PacedLink& link = target.tier == Tier::device ? *call.rank.up : *call.rank.down;
    const Moved bytes = moved(call.set(), call.op);
    link.copy(address(call, to), address(call, from), bytes.to_device + bytes.to_host);
  }
}

OpCost move_cost(const CostCall& call) {
  return transfer_cost(moved(call.set, call.op), call.layout, call.cluster);
}

OpSpec transfer_row(OpKind kind, std::string_view name, Travel travel) {
  return {.kind = kind,
          .name = name,
          .operands = {{Role::copied, Count::one, may_read}, {Role::copy, Count::one, may_write | may_update}},
          .run = run_transfer,
          .cost = move_cost,
          .travel = travel};
}

}  // namespace

std::vector<OpSpec> transfer_ops() {
  return {transfer_row(OpKind::fetch, "fetch", Travel::ahead), transfer_row(OpKind::evict, "evict", Travel::behind)};
}

}  // namespace zrt::runtime

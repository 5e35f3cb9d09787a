// Stages of a pipeline hand values to their neighbours. Ranks that share blocks have them alike on both sides: each
// sends a share of them, and those that receive bring the shares together, so that they cross between stages once.
// Ranks that share rows hand on their own and need no others.
#include <fmt/format.h>

#include <vector>

#include "runtime/ops/call.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

// This rank's share of what crosses.
struct Share {
  std::byte* data;
  uint64_t bytes;
};
Share share_of(const OpCall& call) {
  const Access& access = call.op.accesses.front();
  const Layout& layout = *call.rank.layout;
  if (layout.shares_rows()) return {call.address(access), call.bytes(access)};
  const uint64_t bytes = call.bytes(access) / static_cast<uint64_t>(layout.mesh.tensor());
  return {call.address(access) + static_cast<uint64_t>(call.rank.tensor) * bytes, bytes};
}

// Both sides make the same call, of a group of two.
void run_link(const OpCall& call) {
  const bool sends = call.op.kind == OpKind::send;
  const Share share = share_of(call);
  const comm::Message message{1 - call.comm().rank(), share.data, share.bytes};
  const std::span<const comm::Message> one(&message, 1), none;
  call.comm().send_recv(sends ? one : none, sends ? none : one,
                        fmt::format("microbatch {}", call.op.microbatch.at(call.iteration)));
}

void run_gather_received(const OpCall& call) {
  const Share share = share_of(call);
  const comm::GatherRange range{share.data, call.address(call.op.accesses.front()), static_cast<int64_t>(share.bytes)};
  call.comm().all_gather({&range, 1}, core::DType::u8,
                         fmt::format("microbatch {}", call.op.microbatch.at(call.iteration)));
}

Volume received_volume(const ProgramSet& set, const Op& op, const Layout&) {
  Volume volume;
  volume.bytes = static_cast<double>(set.buffers[op.accesses.front().buffer].bytes);
  volume.copies = false;
  return volume;
}

Volume link_volume(const ProgramSet& set, const Op& op, const Layout& layout) {
  const int shares = layout.shares_rows() ? 1 : layout.mesh.tensor();
  const uint64_t bytes = set.buffers[op.accesses.front().buffer].bytes / static_cast<uint64_t>(shares);
  Volume volume;
  volume.bytes = 2 * static_cast<double>(bytes);  // of which a rank receives half
  volume.copies = false;
  volume.received = op.kind == OpKind::receive ? bytes : 0;
  return volume;
}

OpSpec link_row(OpKind kind, std::string_view name, uint8_t use, Role forward, Role backward) {
  return {.kind = kind,
          .name = name,
          .phases = {"step", "eval"},
          .operands = {{forward, Count::optional, use}, {backward, Count::optional, use}},
          .run = run_link,
          .volume = link_volume,
          .of_microbatch = true};
}

}  // namespace

std::vector<OpSpec> link_ops() {
  return {link_row(OpKind::send, "send", may_read, Role::output, Role::d_input),
          link_row(OpKind::receive, "receive", may_write, Role::input, Role::d_output),
          {.kind = OpKind::gather_received,
           .name = "gather_received",
           .phases = {"step", "eval"},
           .operands = {{Role::input, Count::optional, may_update}, {Role::d_output, Count::optional, may_update}},
           .run = run_gather_received,
           .volume = received_volume,
           .of_microbatch = true}};
}

}  // namespace zrt::runtime

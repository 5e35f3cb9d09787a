// What stages of a pipeline hand to their neighbours.
#include <fmt/format.h>

#include <vector>

#include "runtime/ops/call.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

// Both sides make the same call, of a group of two.
void run_link(const OpCall& call) {
  const bool sends = call.op.kind == OpKind::send;
  const Access& access = call.op.accesses.front();
  const comm::Message message{1 - call.comm().rank(), call.address(access), call.bytes(access)};
  const std::span<const comm::Message> one(&message, 1), none;
  call.comm().send_recv(sends ? one : none, sends ? none : one,
                        fmt::format("microbatch {}", call.op.microbatch.at(call.iteration)));
}

Volume link_volume(const ProgramSet& set, const Op& op, const Layout&) {
  const uint64_t bytes = set.buffers[op.accesses.front().buffer].bytes;
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
          link_row(OpKind::receive, "receive", may_write, Role::input, Role::d_output)};
}

}  // namespace zrt::runtime

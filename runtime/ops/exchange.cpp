// What ranks that share the work of a block give each other: ports between its parts, and for an export the parts of
// weights.
#include <fmt/format.h>

#include <vector>

#include "runtime/ops/call.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

const models::Port& port_of(const Layout& layout, const Op& op) {
  return layout.model->blocks[op.block]->anatomy().ports[op.port];
}

// Whether what ranks have of a port is added up.
bool adds_up(const Op& op, const models::Port& port) {
  const bool backward = op.accesses.front().role == Role::d_port;
  return port.seam == (backward ? models::Seam::enter : models::Seam::leave);
}

// In place: sums of what all have, of which ranks that share rows get their own, or what each has for all.
void run_exchange(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const models::Port& port = port_of(layout, call.op);
  const Access& access = call.op.accesses.front();
  std::byte* data = call.address(access);
  const std::string label = fmt::format("microbatch {}", call.op.microbatch.at(call.iteration));
  const core::DType type = port.element == 0 ? layout.compute : core::DType::u8;
  const auto elements = static_cast<int64_t>(call.bytes(access) / core::dtype_size(type));
  const int64_t share = elements / layout.mesh.tensor();
  std::byte* own = data + static_cast<size_t>(call.rank.tensor * share) * core::dtype_size(type);
  if (!adds_up(call.op, port)) {
    const comm::GatherRange range{own, data, share};
    return call.comm().all_gather({&range, 1}, type, label);
  }
  if (!layout.shares_rows()) return call.comm().all_reduce(data, elements, type, label);
  const comm::ReduceRange range{data, own, share, false};
  call.comm().reduce_scatter({&range, 1}, type, type, label);
}

Volume exchange_volume(const ProgramSet& set, const Op& op, const Layout& layout) {
  Volume volume;
  volume.bytes = static_cast<double>(set.buffers[op.accesses.front().buffer].bytes);
  volume.copies = false;
  if (!adds_up(op, port_of(layout, op))) return volume;
  volume.sums = true, volume.rounds = layout.shares_rows() ? 1 : 2;
  volume.from = volume.to = layout.compute;
  return volume;
}

void run_gather_parts(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const comm::GatherRange range{call.at(Role::full_state), call.at(Role::all_parts), call.unit(0).elements};
  call.comm().all_gather({&range, 1}, logical_type(layout, call.op), call.op.name);
}

Volume parts_volume(const ProgramSet& set, const Op& op, const Layout&) {
  Volume volume;
  volume.bytes = role_bytes(set, op, Role::all_parts);
  return volume;
}

}  // namespace

std::vector<OpSpec> exchange_ops() {
  return {{.kind = OpKind::exchange,
           .name = "exchange",
           .phases = {"step", "eval", "decode"},
           .operands = {{Role::port, Count::optional, may_update}, {Role::d_port, Count::optional, may_update}},
           .run = run_exchange,
           .volume = exchange_volume,
           .of_microbatch = true},
          {.kind = OpKind::gather_parts,
           .name = "gather_parts",
           .phases = {"export"},
           .operands = {{Role::full_state, Count::one, may_read}, {Role::all_parts, Count::one, may_write}},
           .run = run_gather_parts,
           .volume = parts_volume,
           .type = logical_type}};
}

}  // namespace zrt::runtime

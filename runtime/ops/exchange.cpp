// Ranks that share the work of a block give each other ports between its parts, and for an export the parts of weights.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/ops/call.h"
#include "runtime/ops/spec.h"
#include "runtime/program/export_piece.h"

namespace zrt::runtime {
namespace {

using models::Collective;

const models::Port& port_of(const Layout& layout, const Op& op) {
  return layout.model->blocks[op.block]->anatomy().ports[op.port];
}

// The type of a port's elements, whose bits are moved as they are unless they are of the compute type.
core::DType element_type(const models::Port& port, core::DType compute) {
  if (port.element == 0) return compute;
  return port.element == sizeof(float) ? core::DType::f32 : core::DType::u8;
}

// Elements of each block that comes in which are used. The host does not read what a GPU has: blocks move whole there.
std::vector<int64_t> used_elements(const OpCall& call) {
  const models::Port& port = port_of(*call.rank.layout, call.op);
  if (port.used_by == models::Port::all_used || core::place().device != core::DeviceKind::cpu) return {};
  const Access& by = call.op.accesses.back();
  const uint64_t half = call.bytes(by) / 2;
  const auto* row = reinterpret_cast<const int32_t*>(call.address(by) + half);
  const auto ranks = static_cast<size_t>(call.comm().size()), room = half / sizeof(int32_t) / ranks;
  std::vector<int64_t> used;
  for (size_t r = 0; r < ranks; ++r) {
    const int32_t* const block = row + r * room;
    const auto* const end = std::find_if(block, block + room, [](int32_t number) { return number < 0; });
    used.push_back((end - block) * port.width);
  }
  return used;
}

void deliver(const OpCall& call, std::byte* data, int64_t elements, core::DType type, const std::string& label) {
  comm::Communicator& comm = call.comm();
  comm.all_to_all(data, data + static_cast<size_t>(elements) * core::dtype_size(type), elements / comm.size(), type,
                  label, used_elements(call));
}

// The collective works in place, but for an all-to-all: what it brings lies behind what it takes.
void run_exchange(const OpCall& call) {
  const Access& access = call.op.accesses.front();
  std::byte* data = call.address(access);
  const std::string label = fmt::format("microbatch {}", call.op.microbatch.at(call.iteration));
  const core::DType type = element_type(port_of(*call.rank.layout, call.op), call.rank.layout->compute);
  const auto elements = static_cast<int64_t>(call.bytes(access) / core::dtype_size(type));
  comm::Communicator& comm = call.comm();
  const int64_t share = elements / comm.size();
  std::byte* own = data + static_cast<size_t>(comm.rank() * share) * core::dtype_size(type);
  switch (call.op.collective) {
    case Collective::all_reduce:
      return comm.all_reduce(data, elements, type, label);
    case Collective::reduce_scatter: {
      const comm::ReduceRange range{data, own, share, false};
      return comm.reduce_scatter({&range, 1}, type, type, label);
    }
    case Collective::all_gather: {
      const comm::GatherRange range{own, data, share};
      return comm.all_gather({&range, 1}, type, label);
    }
    case Collective::all_to_all:
      return deliver(call, data, elements / 2, type, label);
    case Collective::none:
      return;
  }
}

Volume exchange_volume(const ProgramSet& set, const Op& op, const Layout& layout) {
  Volume volume;
  volume.bytes = static_cast<double>(set.buffers[op.accesses.front().buffer].bytes);
  volume.copies = false;
  if (op.collective == Collective::all_to_all) volume.bytes /= 2;
  if (!models::adds_up(op.collective)) return volume;
  volume.sums = true, volume.rounds = op.collective == Collective::all_reduce ? 2 : 1;
  volume.from = volume.to = layout.compute;
  return volume;
}

// Brings together a piece of the parts that ranks have of a unit, one behind the other; of ranks that have other
// tensors each, those of one place in a turn.
void run_gather_parts(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const optimizer::Unit& unit = call.unit(0);
  const core::DType type = logical_type(layout, call.op);
  const UnitPiece piece = export_piece(layout, unit, call.op.round);
  const size_t size = core::dtype_size(type);
  std::byte* const own = call.at(Role::full_state) + static_cast<size_t>(piece.begin) * size;
  std::byte* const all = call.at(Role::all_parts);
  if (!unit.spread()) {
    const comm::GatherRange range{own, all, piece.count};
    return call.comm().all_gather({&range, 1}, type, call.op.name);
  }
  const int slices = layout.mesh.degree(unit.slice_axes());
  const auto turn = static_cast<int>(call.op.microbatch.at(call.iteration));
  const size_t bytes = static_cast<size_t>(piece.count) * size;
  for (int slice = 0; slice < slices; ++slice) {
    const int root = turn * slices + slice;
    std::byte* const part = all + static_cast<size_t>(slice) * bytes;
    if (call.comm().rank() == root) core::copy_bytes(part, own, bytes);
    call.comm().broadcast(part, piece.count, type, root, fmt::format("{} of place {}", call.op.name, turn));
  }
}

Volume parts_volume(const ProgramSet&, const Op& op, const Layout& layout) {
  Volume volume;
  const optimizer::Unit& unit = layout.units.units[op.units.front()];
  const int64_t elements = export_piece(layout, unit, op.round).count * layout.mesh.degree(unit.slice_axes());
  volume.bytes = static_cast<double>(elements) * static_cast<double>(core::dtype_size(logical_type(layout, op)));
  return volume;
}

}  // namespace

std::vector<OpSpec> exchange_ops() {
  return {
      {.kind = OpKind::exchange,
       .name = "exchange",
       .phases = {"step", "eval", "decode"},
       .operands = {{Role::port, Count::any, may_update | may_read}, {Role::d_port, Count::any, may_update | may_read}},
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

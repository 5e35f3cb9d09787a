#include <algorithm>
#include <vector>

#include "runtime/ops/expand.h"
#include "runtime/ops/shard.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

// Brings weights in few bits together, and makes numbers of them.
void gather_packed(const OpCall& call, core::DType type) {
  std::vector<comm::GatherRange> ranges;
  std::vector<const std::byte*> from;
  size_t shared = 0;
  for (size_t i = 0; i < call.op.units.size(); ++i) {
    const optimizer::Unit& unit = call.unit(i);
    std::byte* part = call.at(Role::weight, i);
    from.push_back(part);
    if (unit.held.weights == optimizer::Extent::full || unit.shards() == 1) continue;
    std::byte* all = call.at(Role::packed, shared++);
    ranges.push_back({part, all, static_cast<int64_t>(core::form_bytes(*unit.packed, unit.shard))});
    from.back() = all;
  }
  if (!ranges.empty()) call.comm().all_gather(ranges, core::DType::u8, call.op.name);
  for (size_t i = 0; i < from.size(); ++i) {
    const optimizer::Unit& unit = call.unit(i);
    expand_weights(*unit.packed, from[i], type, call.at(Role::full_state, i), unit.elements);
  }
}

// Gathers shards into whole units. With one buffer per unit (updated weights, whole gradients) the shard lies in it.
void run_gather(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const core::DType type = spec(call.op.kind).type(layout, call.op);
  const size_t size = core::dtype_size(type);
  if (call.unit(0).packed) return gather_packed(call, type);
  std::vector<comm::GatherRange> ranges;
  for (size_t i = 0; i < call.op.units.size(); ++i) {
    const optimizer::Unit& unit = call.unit(i);
    std::byte *part = call.at(Role::weight, i), *full = call.at(Role::full_state, i);
    const Access* const partial = call.find(Role::partial, i);
    if (partial && partial->use == Use::read) {  // from one member of each island to all
      const Level level = level_of(layout, unit);
      for (int64_t group = 0; group < level.groups; ++group) {
        const auto at = static_cast<size_t>(group * unit.shard) * size;
        ranges.push_back({call.address(*partial) + at, full + at * static_cast<size_t>(level.inner), unit.shard});
      }
      continue;
    }
    if (!part) part = own_shard(call, full, unit, type);
    ranges.push_back({part, partial ? call.address(*partial) : full, unit.shard});
  }
  call.comm().all_gather(ranges, type, call.op.name);
}

OpSpec gather_row(OpKind kind, std::string_view name, std::vector<std::string_view> phases, Travel travel,
                  core::DType (*type)(const Layout&, const Op&)) {
  return {.kind = kind,
          .name = name,
          .phases = std::move(phases),
          .operands = {{Role::weight, Count::some_units, may_read},
                       {Role::full_state, Count::some_units, may_read | may_write | may_update},
                       {Role::partial, Count::some_units, may_read | may_write},
                       {Role::packed, Count::some_units, may_write}},
          .run = run_gather,
          .volume = gathered_volume,
          .travel = travel,
          .type = type};
}

}  // namespace

std::vector<OpSpec> gather_ops() {
  return {gather_row(OpKind::gather, "gather", {"step", "eval", "decode", "refresh"}, Travel::ahead,
                     [](const Layout& layout, const Op&) { return layout.compute; }),
          gather_row(OpKind::gather_grad, "gather_grad", {"step"}, Travel::behind,
                     [](const Layout& layout, const Op&) { return layout.grad; }),
          gather_row(OpKind::gather_state, "gather_state", {"export"}, Travel::none, logical_type)};
}

}  // namespace zrt::runtime

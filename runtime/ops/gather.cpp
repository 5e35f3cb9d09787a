#include <algorithm>
#include <vector>

#include "runtime/ops/shard.h"
#include "runtime/ops/spec.h"

namespace zrt::runtime {
namespace {

// Gathers shards into whole units. With one buffer per unit (updated weights, whole gradients) the shard lies in it.
void run_gather(const OpCall& call) {
  const Layout& layout = *call.rank.layout;
  const core::DType type = spec(call.op.kind).type(layout, call.op);
  const size_t size = core::dtype_size(type);
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
                       {Role::partial, Count::some_units, may_read | may_write}},
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

// Forecasts what a step must communicate, in closed form.
#pragma once
#include <cstdint>

#include "optimizer/optimizer.h"
#include "runtime/program/layout.h"
#include "runtime/program/program.h"

namespace zrt::testing {

// Closed form of the elements a rank receives per step, by kind of op: Σ over units of (gathers or reductions) × unit
// elements × (N-1)/N. Counts come from the program.
struct CommForecast {
  uint64_t gather = 0, reduce_grad = 0, gather_grad = 0;
  uint64_t between_groups = 0;  // of these, on the outer level
  uint64_t share_sums = 0;      // bytes: what an optimizer's rounds share
};
inline CommForecast forecast_comm(const runtime::ProgramSet& set, const runtime::Program& program,
                                  const runtime::Layout& layout) {
  using runtime::OpKind, runtime::Axis;
  CommForecast forecast;
  const auto optimizer = layout.optimizer;
  for_each_execution(program, ~0u, [&](runtime::OpId id, uint32_t) {
    const runtime::Op& op = program.ops[id];
    const auto others = static_cast<uint64_t>(set.group(op).ranks.size - 1);
    if (op.kind == OpKind::share_sums) {
      forecast.share_sums += optimizer->share_bytes(layout.units.units[op.units[0]], op.round) * others;
    }
    uint64_t* kind = op.kind == OpKind::gather        ? &forecast.gather
                     : op.kind == OpKind::reduce_grad ? &forecast.reduce_grad
                     : op.kind == OpKind::gather_grad ? &forecast.gather_grad
                                                      : nullptr;
    if (!kind) return;
    // Inside a group each member stands for its peers in all groups. Groups with equal shards all-reduce.
    const int all = set.group(op).axes == runtime::island_axes ? layout.mesh.inner() : layout.mesh.data();
    const bool twice = (layout.groups.replicated && set.group(op).axes == runtime::outer_axes) ||
                       !set.group(op).axes.within(runtime::data_axes);
    for (uint32_t u : op.units) {
      const optimizer::Unit& unit = layout.units.units[u];
      const auto parts = static_cast<uint64_t>(unit.spread() ? unit.shards() : all);
      const uint64_t elements = static_cast<uint64_t>(unit.elements) / parts * others * (twice ? 2 : 1);
      *kind += elements;
      if (set.group(op).axes == runtime::outer_axes) forecast.between_groups += elements;
    }
  });
  return forecast;
}

}  // namespace zrt::testing

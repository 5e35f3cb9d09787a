// Whole matrices: every rank proposes for its part of a unit, one rank refines the whole, and every rank gets its part
// back. The units of one op belong to ranks one after the other, each rank to one of them at most.
#include <fmt/format.h>

#include <vector>

#include "models/kernels/kernels.h"
#include "runtime/ops/holding.h"
#include "runtime/ops/update_part.h"

namespace zrt::runtime {
namespace {

// Who sends what between parts and wholes, of one op on one rank.
class Exchange {
 public:
  explicit Exchange(const OpCall& call)
      : call_(call),
        held_(call.op, *call.rank.layout),
        self_(call.rank.layout->mesh.place(call.unit(0).holder_axes, call.rank.number)) {}

  void collect() const {
    std::vector<comm::Message> sends, receives;
    for (size_t i = 0; i < call_.op.units.size(); ++i) {
      if (!owns(i)) {
        if (held_.proposes(i, self_)) sends.push_back({held_.owner(i), part(i), held_.part_bytes(i)});
        continue;
      }
      core::copy_bytes(in_whole(i, self_), part(i), held_.part_bytes(i));
      for_others([&](int rank) {
        if (held_.proposes(i, rank)) receives.push_back({rank, in_whole(i, rank), held_.part_bytes(i)});
      });
    }
    if (held_.proposers() > 1) call_.comm().send_recv(sends, receives, call_.op.name);
  }

  // The slices of a sliced unit come together in front of the optimizer's workspace.
  void refine() const {
    const optimizer::Optimizer& optimizer = *call_.rank.layout->optimizer;
    auto* const parts = call_.as<float>(Role::refined);
    std::byte* const workspace = call_.at(Role::workspace);
    for (size_t i = 0; i < call_.op.units.size(); ++i) {
      if (!owns(i)) continue;
      const optimizer::Unit& unit = held_.unit(i);
      if (!unit.sliced()) {
        optimizer.refine(unit, parts, workspace);
        continue;
      }
      auto* const matrix = reinterpret_cast<float*>(workspace);
      for_rows(unit, [&](const models::PartRows& rows, int64_t slice) {
        models::copy_columns(core::DType::f32, parts + slice + rows.begin, rows.stride, matrix + rows.whole,
                             rows.whole_stride, rows.rows, rows.count);
      });
      optimizer.refine(unit, matrix, workspace + held_.all_bytes(i));
      for_rows(unit, [&](const models::PartRows& rows, int64_t slice) {
        models::copy_columns(core::DType::f32, matrix + rows.whole, rows.whole_stride, parts + slice + rows.begin,
                             rows.stride, rows.rows, rows.count);
      });
    }
  }

  void hand_out() const {
    std::vector<comm::Message> sends, receives;
    for (size_t i = 0; i < call_.op.units.size(); ++i) {
      if (!owns(i)) {
        receives.push_back({held_.owner(i), part(i), held_.part_bytes(i)});
        continue;
      }
      core::copy_bytes(part(i), in_whole(i, self_), held_.part_bytes(i));
      for_others([&](int rank) { sends.push_back({rank, in_whole(i, rank), held_.part_bytes(i)}); });
    }
    call_.comm().send_recv(sends, receives, call_.op.name);
  }

 private:
  bool owns(size_t i) const { return held_.owner(i) == self_; }
  std::byte* part(size_t i) const { return call_.at(Role::proposal, i); }
  std::byte* in_whole(size_t i, int rank) const { return call_.at(Role::refined) + held_.offset(i, rank); }
  template <class Visit>
  void for_others(const Visit& visit) const {
    for (int rank = 0; rank < held_.ranks(); ++rank) {
      if (rank != self_) visit(rank);
    }
  }
  // Calls `visit` with what is no padding in each slice of a matrix, and with where the slice lies.
  template <class Visit>
  void for_rows(const optimizer::Unit& unit, const Visit& visit) const {
    for (int slice = 0; slice < held_.slices(); ++slice) {
      for (const models::PartRows& rows : models::rows_of_part(*unit.params.front().param, slice)) {
        visit(rows, slice * unit.elements);
      }
    }
  }

  const OpCall& call_;
  const Holding held_;
  const int self_;
};

void run_propose(const OpCall& call) {
  call.rank.layout->optimizer->propose(decision_of(call), *UpdatePart(call, call.unit(0).held.states));
}

void run_collect(const OpCall& call) {
  Exchange(call).collect();
}

void run_refine(const OpCall& call) {
  Exchange(call).refine();
}

void run_hand_out(const OpCall& call) {
  Exchange(call).hand_out();
}

// Ranks receive different amounts: those of the first of them, and for time those of whoever receives most.
Volume refine_volume(const Op& op, const Layout& layout, bool out) {
  const Holding held(op, layout);
  const auto proposers = static_cast<uint64_t>(held.proposers());
  uint64_t all = 0, largest = 0, first = 0;
  for (size_t i = 0; i < op.units.size(); ++i) {
    const bool mine = held.owner(i) == 0;
    all += held.part_bytes(i);
    largest = std::max(largest, held.part_bytes(i));
    if (out ? !mine : mine) first += held.part_bytes(i) * (out ? 1 : proposers - 1);
  }
  Volume volume;
  volume.received = first;
  volume.bytes = static_cast<double>(out ? all : proposers > 1 ? largest * proposers : 0);
  return volume;
}

// The products of the largest of its units, which ranks work on side by side.
OpCost refine_cost(const CostCall& call) {
  const optimizer::Optimizer& optimizer = *call.layout.optimizer;
  double seconds = 0;
  for (uint32_t u : call.op.units) {
    const optimizer::Unit& unit = call.layout.units.units[u];
    int64_t smallest = INT64_MAX;
    for (const optimizer::UnitParam& place : unit.params) {
      for (int64_t side : place.param->whole_shape()) smallest = std::min(smallest, side);
    }
    const ComputeRates& rates = call.cluster.rates(core::DType::f32);
    const auto side = static_cast<double>(smallest);
    seconds = std::max(seconds, optimizer.refine_flops(unit) /
                                    (rates.peak_flops_per_second * rates.gemm_efficiency(side, side, side)));
  }
  return {call.cluster.op_seconds + seconds, Resource::compute};
}

}  // namespace

int owner_of_refined(const Op& op, size_t i, int ranks) {
  return static_cast<int>((op.first_owner + i) % static_cast<size_t>(ranks));
}

std::vector<OpSpec> refine_ops() {
  return {{.kind = OpKind::propose,
           .name = "propose",
           .phases = {"step", "update"},
           .operands = {{Role::control, Count::one, may_read},
                        {Role::grad, Count::each_unit, may_read},
                        {Role::state, Count::any, may_update},
                        {Role::proposal, Count::each_unit, may_write}},
           .run = run_propose,
           .cost = touched_bytes_cost,
           .works = true,
           .site = Site::update},
          {.kind = OpKind::collect,
           .name = "collect",
           .phases = {"step", "update"},
           .operands = {{Role::proposal, Count::each_unit, may_read}, {Role::refined, Count::one, may_write}},
           .run = run_collect,
           .volume = [](const ProgramSet&, const Op& op,
                        const Layout& layout) { return refine_volume(op, layout, false); }},
          {.kind = OpKind::refine,
           .name = "refine",
           .phases = {"step", "update"},
           .operands = {{Role::refined, Count::one, may_update}, {Role::workspace, Count::optional, may_write}},
           .run = run_refine,
           .cost = refine_cost,
           .works = true},
          {.kind = OpKind::hand_out,
           .name = "hand_out",
           .phases = {"step", "update"},
           .operands = {{Role::refined, Count::one, may_read}, {Role::proposal, Count::each_unit, may_write}},
           .run = run_hand_out,
           .volume = [](const ProgramSet&, const Op& op, const Layout& layout) {
             return refine_volume(op, layout, true);
           }}};
}

}  // namespace zrt::runtime

// Whole matrices: every rank proposes for its part of a unit, one rank refines the whole, and every rank gets its part
// back. The units of one op belong to ranks one after the other, each rank to one of them at most.
#include <fmt/format.h>

#include <vector>

#include "runtime/ops/spec.h"
#include "runtime/ops/update_part.h"

namespace zrt::runtime {
namespace {

using optimizer::Extent;

// Who sends what between parts and wholes, of one op on one rank.
class Exchange {
 public:
  explicit Exchange(const OpCall& call)
      : call_(call), layout_(*call.rank.layout), ranks_(layout_.shards()), self_(layout_.shard_of(call.rank.data)) {}

  int owner(size_t i) const { return owner_of_refined(call_.op, i, ranks_); }
  bool owns(size_t i) const { return owner(i) == self_; }
  bool whole_parts() const { return layout_.zero.states == Extent::full; }

  // A unit's elements that every rank proposes, and those of rank r in the whole.
  uint64_t part_bytes(size_t i) const {
    return static_cast<uint64_t>(layout_.extent(call_.unit(i), layout_.zero.states)) * sizeof(float);
  }
  std::byte* part(size_t i) const { return call_.at(Role::proposal, i); }
  std::byte* in_whole(size_t i, int rank) const {
    return call_.at(Role::refined) + (whole_parts() ? 0 : static_cast<uint64_t>(rank) * part_bytes(i));
  }

  void collect() const {
    std::vector<comm::Message> sends, receives;
    for_units([&](size_t i) {
      if (owns(i)) core::copy_bytes(in_whole(i, self_), part(i), part_bytes(i));
      if (whole_parts()) return;  // the owner has proposed all of it
      if (!owns(i)) sends.push_back({owner(i), part(i), part_bytes(i)});
      for_others(i, [&](int rank) { receives.push_back({rank, in_whole(i, rank), part_bytes(i)}); });
    });
    if (!whole_parts()) call_.comm().send_recv(sends, receives, call_.op.name);
  }

  void hand_out() const {
    std::vector<comm::Message> sends, receives;
    for_units([&](size_t i) {
      if (owns(i)) core::copy_bytes(part(i), in_whole(i, self_), part_bytes(i));
      if (!owns(i)) receives.push_back({owner(i), part(i), part_bytes(i)});
      for_others(i, [&](int rank) { sends.push_back({rank, in_whole(i, rank), part_bytes(i)}); });
    });
    call_.comm().send_recv(sends, receives, call_.op.name);
  }

 private:
  template <class Visit>
  void for_units(const Visit& visit) const {
    for (size_t i = 0; i < call_.op.units.size(); ++i) visit(i);
  }
  // Of a unit that this rank owns, the other ranks.
  template <class Visit>
  void for_others(size_t i, const Visit& visit) const {
    for (int rank = 0; owns(i) && rank < ranks_; ++rank) {
      if (rank != self_) visit(rank);
    }
  }

  const OpCall& call_;
  const Layout& layout_;
  const int ranks_, self_;
};

void run_propose(const OpCall& call) {
  call.rank.layout->optimizer->propose(decision_of(call), *UpdatePart(call, call.rank.layout->zero.states));
}

void run_collect(const OpCall& call) {
  Exchange(call).collect();
}

void run_refine(const OpCall& call) {
  const Exchange exchange(call);
  for (size_t i = 0; i < call.op.units.size(); ++i) {
    if (!exchange.owns(i)) continue;
    call.rank.layout->optimizer->refine(call.unit(i), call.as<float>(Role::refined), call.at(Role::workspace));
  }
}

void run_hand_out(const OpCall& call) {
  Exchange(call).hand_out();
}

// Ranks receive different amounts: those of the first of them, and for time those of whoever receives most.
Volume refine_volume(const Op& op, const Layout& layout, bool out) {
  const int ranks = layout.shards();
  const bool whole = layout.zero.states == Extent::full;
  uint64_t all = 0, largest = 0, first = 0;
  for (size_t i = 0; i < op.units.size(); ++i) {
    const optimizer::Unit& unit = layout.units.units[op.units[i]];
    const bool mine = owner_of_refined(op, i, ranks) == 0;
    const auto part = static_cast<uint64_t>(layout.extent(unit, layout.zero.states)) * sizeof(float);
    all += part;
    largest = std::max(largest, part);
    if (out ? !mine : mine && !whole) first += out ? part : part * static_cast<uint64_t>(ranks - 1);
  }
  Volume volume;
  volume.received = first;
  volume.bytes = static_cast<double>(out ? all : whole ? 0 : largest * static_cast<uint64_t>(ranks));
  return volume;
}

// The products of the largest of its units, which ranks work on side by side.
OpCost refine_cost(const CostCall& call) {
  const optimizer::Optimizer& optimizer = *call.layout.optimizer;
  double seconds = 0;
  for (uint32_t u : call.op.units) {
    const optimizer::Unit& unit = call.layout.units.units[u];
    int64_t smallest = unit.elements;
    for (const optimizer::UnitParam& place : unit.params) {
      for (int64_t side : place.param->shape) smallest = std::min(smallest, side);
    }
    seconds = std::max(
        seconds,
        call.cluster.rates(core::DType::f32).gemm_seconds(static_cast<double>(smallest), optimizer.refine_flops(unit)));
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
           .phases = {"step"},
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
           .phases = {"step"},
           .operands = {{Role::proposal, Count::each_unit, may_read}, {Role::refined, Count::one, may_write}},
           .run = run_collect,
           .volume = [](const ProgramSet&, const Op& op,
                        const Layout& layout) { return refine_volume(op, layout, false); }},
          {.kind = OpKind::refine,
           .name = "refine",
           .phases = {"step"},
           .operands = {{Role::refined, Count::one, may_update}, {Role::workspace, Count::optional, may_write}},
           .run = run_refine,
           .cost = refine_cost,
           .works = true},
          {.kind = OpKind::hand_out,
           .name = "hand_out",
           .phases = {"step"},
           .operands = {{Role::refined, Count::one, may_read}, {Role::proposal, Count::each_unit, may_write}},
           .run = run_hand_out,
           .volume = [](const ProgramSet&, const Op& op, const Layout& layout) {
             return refine_volume(op, layout, true);
           }}};
}

}  // namespace zrt::runtime

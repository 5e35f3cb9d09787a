#include <fmt/format.h>

#include "optimizer/optimizer.h"
#include "runtime/passes/collectives.h"

namespace zrt::runtime {
namespace {

using core::Category;

class UpdatePass {
 public:
  UpdatePass(DraftSegment& segment, ProgramSet& set, const Layout& layout, const StateBuffers& state, uint32_t u)
      : segment_(segment), set_(set), layout_(layout), state_(state), unit_(u) {}

  void emit() {
    const auto optimizer = layout_.optimizer;
    const optimizer::Unit& unit = layout_.units.units[unit_];
    const uint64_t work_bytes = optimizer->work_bytes(unit);
    const BufferId work =
        work_bytes == 0
            ? no_buffer
            : set_.add({"optimizer work of " + unit.name, Category::workspace, Life::transient, work_bytes});
    for (uint32_t round = 0; round < optimizer->rounds(unit); ++round) {
      const uint64_t bytes =
          optimizer->share_bytes(unit, round) * static_cast<uint64_t>(layout_.mesh.degree(unit.holder_axes));
      const BufferId sums =
          set_.add({fmt::format("sums {} of {}", round, unit.name), Category::comm, Life::transient, bytes});
      Op sum = make(OpKind::sum, round);
      read_control(sum);
      touch(sum, state_.grad[unit_], Role::grad, Use::read);
      touch(sum, state_.weight[unit_], Role::weight, Use::read);
      touch(sum, state_.master[unit_], Role::master, Use::read);
      touch_states(sum, Use::read);
      if (round > 0) touch(sum, work, Role::work, Use::read);
      touch(sum, sums, Role::sums, Use::write);
      segment_.ops.push_back(std::move(sum));

      Op share = make(OpKind::share_sums, round);
      place_in(set_, share, unit.holder_axes);
      touch(share, sums, Role::sums, Use::update);
      segment_.ops.push_back(std::move(share));

      Op fold = make(OpKind::fold, round);
      read_control(fold);
      touch(fold, sums, Role::sums, Use::read);
      touch_states(fold, Use::update);
      touch(fold, work, Role::work, round == 0 ? Use::write : Use::update);
      segment_.ops.push_back(std::move(fold));
    }
    Op update = make(OpKind::update, 0);
    read_control(update);
    touch(update, state_.grad[unit_], Role::grad, Use::read);
    touch(update, state_.weight[unit_], Role::weight, Use::update);
    touch_states(update, Use::update);
    touch(update, work, Role::work, Use::read);
    touch(update, state_.master[unit_], Role::master, Use::update);
    segment_.ops.push_back(std::move(update));
  }

 private:
  Op make(OpKind kind, uint32_t round) const {
    Op op;
    op.kind = kind;
    op.round = round;
    const std::string& unit = layout_.units.units[unit_].name;
    op.name = kind == OpKind::update       ? "update " + unit
              : kind == OpKind::share_sums ? fmt::format("share sums {} of {}", round, unit)
                                           : fmt::format("{} {} of {}", op_kind_name(kind), round, unit);
    op.units = {unit_};
    return op;
  }
  static void touch(Op& op, BufferId buffer, Role role, Use use) {
    if (buffer != no_buffer) op.accesses.push_back({buffer, role, use, {}});
  }
  void read_control(Op& op) const { touch(op, state_.decided(), Role::control, Use::read); }
  void touch_states(Op& op, Use use) const {
    for (BufferId kind : state_.states[unit_]) touch(op, kind, Role::state, use);
  }

  DraftSegment& segment_;
  ProgramSet& set_;
  const Layout& layout_;
  const StateBuffers& state_;
  uint32_t unit_;
};

}  // namespace

void add_plain_updates(DraftSegment& segment, ProgramSet& set, const Layout& layout, const StateBuffers& state,
                       const std::vector<uint32_t>& units) {
  for (uint32_t u : units) UpdatePass(segment, set, layout, state, u).emit();
}

}  // namespace zrt::runtime

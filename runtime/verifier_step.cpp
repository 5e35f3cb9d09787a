#include <fmt/format.h>

#include <array>
#include <map>

#include "core/error.h"
#include "optimizer/optimizer.h"
#include "runtime/verifier.h"

namespace zrt::runtime {
namespace {

using core::ProgramError;
using optimizer::Extent;

// Walks all executions of a step in program order and keeps what has happened so far.
class StepChecker {
 public:
  StepChecker(const Program& program, const Layout& layout)
      : program_(program),
        layout_(layout),
        rounds_(optimizer::make_optimizer(layout.optimizer)->rounds()),
        units_(layout.units.units.size()) {}

  void check() {
    for_each_execution(program_, ~0u, [&](OpId id, uint32_t iteration) { visit(program_.ops[id], iteration); });
    check_microbatches();
    for (size_t u = 0; u < units_.size(); ++u) check_unit(u);
    if (begins_ == 1 && shares_ == 1 && decisions_ == 1) return;
    throw ProgramError(
        fmt::format("a step begins {} times, shares its control block {} times and decides {} times; "
                    "each must happen once",
                    begins_, shares_, decisions_));
  }

 private:
  struct UnitState {
    uint32_t backwards = 0;  // since the last reduction
    uint32_t reductions = 0, norms = 0, gathered_grads = 0, updates = 0;
    uint32_t exchanges = 0;  // sums, shares and folds so far
  };

  uint32_t windows() const { return layout_.microbatches / layout_.reduce_every; }

  void visit(const Op& op, uint32_t iteration) {
    const bool first = begins_ == 0;
    const uint32_t microbatch = op.microbatch.at(iteration);
    switch (op.kind) {
      case OpKind::begin:
        ++begins_;
        return;
      case OpKind::load_batch:
        ++batches_[microbatch];
        return;
      case OpKind::forward:
        ++runs_[{op.block, microbatch}].forward;
        return;
      case OpKind::backward:
        require(op, !first, "begin");
        ++runs_[{op.block, microbatch}].backward;
        for (size_t i = 0; i < op.units.size(); ++i) {
          require_flag(op, i, units_[op.units[i]].backwards > 0);
          ++units_[op.units[i]].backwards;
        }
        return;
      case OpKind::reduce_grad:
        if (op.accumulate.size() != op.units.size()) return;  // the other level
        for (size_t i = 0; i < op.units.size(); ++i) reduce(op, i);
        return;
      case OpKind::norm:
        for (uint32_t u : op.units) require(op, reduced(u), "reduction"), ++units_[u].norms;
        return;
      case OpKind::share_control:
        for (size_t u = 0; u < units_.size(); ++u) require(op, units_[u].norms > 0, "norm");
        ++shares_;
        return;
      case OpKind::decide:
        require(op, shares_ > 0, "share of the control block");
        ++decisions_;
        return;
      case OpKind::gather_grad:
        for (uint32_t u : op.units) require(op, reduced(u), "reduction"), ++units_[u].gathered_grads;
        return;
      case OpKind::sum:
      case OpKind::share_sums:
      case OpKind::fold:
        require(op, decisions_ > 0, "decision");
        for (uint32_t u : op.units) exchange(op, u);
        return;
      case OpKind::update:
        require(op, decisions_ > 0, "decision");
        for (uint32_t u : op.units) {
          require(op, reduced(u) && units_[u].gathered_grads == gathers_grads(), "reduction or gather of its gradient");
          require(op, units_[u].exchanges == exchanges(), "exchange of its sums");
          ++units_[u].updates;
        }
        return;
      case OpKind::gather:
        return;
      default:
        throw ProgramError(fmt::format("op '{}' ({}) has no place in a step", op.name, op_kind_name(op.kind)));
    }
  }

  void reduce(const Op& op, size_t i) {
    const uint32_t u = op.units[i];
    const uint32_t expected = layout_.reduce_every * static_cast<uint32_t>(layout_.units.units[u].blocks.size());
    if (units_[u].backwards != expected) {
      throw ProgramError(fmt::format("'{}' reduces the gradient of '{}' after {} backwards; a window has {}", op.name,
                                     layout_.units.units[u].name, units_[u].backwards, expected));
    }
    require_flag(op, i, units_[u].reductions > 0);
    units_[u].backwards = 0;
    ++units_[u].reductions;
  }

  // Sum, share and fold of one round after the other.
  uint32_t exchanges() const { return 3 * rounds_; }
  void exchange(const Op& op, uint32_t u) {
    constexpr std::array<OpKind, 3> order{OpKind::sum, OpKind::share_sums, OpKind::fold};
    uint32_t& done = units_[u].exchanges;
    if (done < exchanges() && op.kind == order[done % 3] && op.round == done / 3) {
      require(op, reduced(u), "reduction");
      ++done;
      return;
    }
    throw ProgramError(
        fmt::format("op '{}' is out of order: '{}' has had {} of the {} sums, shares and folds of a step", op.name,
                    layout_.units.units[u].name, done, exchanges()));
  }

  bool reduced(size_t u) const { return units_[u].reductions == windows(); }
  uint32_t gathers_grads() const { return layout_.zero.states == Extent::full ? 1 : 0; }
  void require(const Op& op, bool done, const char* what) const {
    if (!done) throw ProgramError(fmt::format("op '{}' comes before the {} that it depends on", op.name, what));
  }

  // The first contribution defines a gradient, all later ones add to it.
  void require_flag(const Op& op, size_t i, bool adds) const {
    if (i < op.accumulate.size() && (op.accumulate[i] != 0) == adds) return;
    throw ProgramError(fmt::format("op '{}' must {} the gradient of '{}'", op.name, adds ? "add to" : "define",
                                   layout_.units.units[op.units[i]].name));
  }

  void check_microbatches() {
    for (uint32_t m = 0; m < layout_.microbatches; ++m) {
      if (batches_[m] != 1) {
        throw ProgramError(fmt::format("the batch of microbatch {} is loaded {} times; once is legal", m, batches_[m]));
      }
      for (uint32_t b = 0; b < layout_.model->blocks.size(); ++b) {
        const Runs& runs = runs_[{b, m}];
        if (runs.forward == 1 && runs.backward == 1) continue;
        throw ProgramError(
            fmt::format("block '{}' runs {} times forward and {} times backward for microbatch {}; each must run once",
                        layout_.model->blocks[b]->name(), runs.forward, runs.backward, m));
      }
    }
  }

  void check_unit(size_t u) const {
    const UnitState& unit = units_[u];
    const std::string& name = layout_.units.units[u].name;
    if (unit.reductions != windows()) {
      throw ProgramError(fmt::format("the gradient of '{}' is reduced {} times in a step of {} windows", name,
                                     unit.reductions, windows()));
    }
    auto once = [&](const char* what, uint32_t count, uint32_t expected) {
      if (count == expected) return;
      throw ProgramError(fmt::format("the {} of '{}' happens {} times in a step; it must happen {} times", what, name,
                                     count, expected));
    };
    once("norm", unit.norms, 1);
    once("gather of the gradient", unit.gathered_grads, gathers_grads());
    once("update", unit.updates, 1);
  }

  struct Runs {
    int forward = 0, backward = 0;
  };
  const Program& program_;
  const Layout& layout_;
  uint32_t rounds_;  // of the optimizer's sums
  std::vector<UnitState> units_;
  std::map<std::pair<uint32_t, uint32_t>, Runs> runs_;  // (block, microbatch)
  std::map<uint32_t, int> batches_;
  uint32_t begins_ = 0, shares_ = 0, decisions_ = 0;
};

}  // namespace

void verify_step(const Program& program, const Layout& layout) {
  StepChecker(program, layout).check();
}

}  // namespace zrt::runtime

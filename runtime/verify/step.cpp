#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "optimizer/optimizer.h"
#include "runtime/ops/spec.h"
#include "runtime/verify/checks.h"
#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {
namespace {

class StepChecker {
 public:
  StepChecker(const Program& program, const Layout& layout, const std::vector<PartOrder>& orders)
      : program_(program),
        layout_(layout),
        orders_(orders),
        units_(layout.units.units.size()),
        runs_(layout.model->blocks.size() * layout.microbatches),
        batches_(layout.microbatches) {}

  void check() {
    for_each_execution(program_, ~0u, [&](OpId id, uint32_t turn) {
      now_ = {id, turn};
      visit(program_.ops[id]);
    });
    const bool step = program_.phase == "step";
    if (step) check_microbatches();
    for (uint32_t u = 0; u < units_.size(); ++u) {
      if (!layout_.units.units[u].trained) continue;
      if (step && !layout_.units.units[u].counted_elsewhere) happened_to(u, units_[u].norms, "the norm");
      happened_to(u, units_[u].updates, "the update");
    }
    if (layout_.update_when != UpdateWhen::after_norm) {
      happened(ahead_, "the decision ahead", "a step", Role::control, 0);
    }
    if (!step) return;
    happened(begins_, "the begin", "a step", Role::control, 0);
    happened(shares_, "the share of the control block", "a step", Role::control, 0);
    happened(decisions_, "the decision", "a step", Role::control, 0);
  }

 private:
  struct UnitState {
    uint8_t norms = 0, updates = 0;
    uint32_t exchanges = 0;  // sums, shares and folds so far, or what a unit that is refined has had
  };
  struct Runs {
    uint8_t forward = 0, recompute = 0, backward = 0;                          // runs of parts done
    uint8_t received = 0, sent = 0, gradient_received = 0, gradient_sent = 0;  // over the border of the stage
  };

  void visit(const Op& op) {
    const uint32_t microbatch = op.microbatch.at(now_.turn);
    if (microbatch >= layout_.microbatches)
      fail(fmt::format("is of microbatch {} of {}", microbatch, layout_.microbatches), OpKind::begin);
    switch (op.kind) {
      case OpKind::begin:
        return once(begins_, "begins a step");
      case OpKind::load_batch:
        return once(batches_[microbatch], "loads the batch of its microbatch");
      case OpKind::forward:
        for (uint32_t u : op.units) {
          const bool waits = layout_.late_updates() && layout_.units.units[u].trained && units_[u].updates == 0;
          require(!waits, OpKind::update, "before", u);
        }
        return run_parts(op, microbatch, &Runs::forward);
      case OpKind::recompute:
        if (orders_[op.block].runs(op.kind).empty()) {
          fail(fmt::format("computes '{}' again, which keeps all that its backward reads",
                           layout_.model->blocks[op.block]->name()),
               OpKind::forward);
        }
        return run_parts(op, microbatch, &Runs::recompute);
      case OpKind::backward:
        require(begins_ > 0, OpKind::begin);
        run_parts(op, microbatch, &Runs::backward);
        return require_loss(op);
      case OpKind::send: {
        require_border(op, sends_forward(op) ? layout_.model->sends(op.block) : layout_.model->receives(op.block));
        Runs& runs = runs_[op.block * layout_.microbatches + microbatch];
        return once(sends_forward(op) ? runs.sent : runs.gradient_sent, "sends what it does of its microbatch");
      }
      case OpKind::receive: {
        require_border(op, sends_forward(op) ? layout_.model->receives(op.block) : layout_.model->sends(op.block));
        Runs& runs = runs_[op.block * layout_.microbatches + microbatch];
        return once(sends_forward(op) ? runs.received : runs.gradient_received,
                    "receives what it does of its microbatch");
      }
      case OpKind::norm:
        require(begins_ > 0, OpKind::begin);
        require(shares_ == 0, OpKind::share_control, "behind");
        for (uint32_t u : op.units) {
          if (layout_.units.units[u].counted_elsewhere) fail("takes a norm that another stage takes", OpKind::begin);
          once(units_[u].norms, "takes the norm of its unit");
        }
        return;
      case OpKind::share_control:
        for (uint32_t u = 0; u < units_.size(); ++u) {
          if (!layout_.units.units[u].trained) continue;
          require(units_[u].norms > 0 || layout_.units.units[u].counted_elsewhere, OpKind::norm, "before", u);
          require(!layout_.early_updates() || units_[u].updates > 0, OpKind::update, "before", u);
        }
        return once(shares_, "shares the control block");
      case OpKind::decide:
        require(shares_ > 0, OpKind::share_control);
        return once(decisions_, "decides");
      case OpKind::decide_ahead:
        if (layout_.update_when == UpdateWhen::after_norm) {
          fail("decides ahead, where updates follow the decision of their step", OpKind::decide);
        }
        require(begins_ > 0 || program_.phase != "step", OpKind::begin);
        return once(ahead_, "decides ahead");
      case OpKind::sum:
      case OpKind::share_sums:
      case OpKind::fold:
        require_decided();
        for (uint32_t u : op.units) exchange(op, u);
        return;
      case OpKind::propose:
      case OpKind::collect:
      case OpKind::refine:
      case OpKind::hand_out:
        require_decided();
        for (uint32_t u : op.units) exchange(op, u);
        return;
      case OpKind::update:
        require_decided();
        for (uint32_t u : op.units) {
          const bool measured = units_[u].norms > 0 || layout_.units.units[u].counted_elsewhere;
          require(measured || layout_.late_updates(), OpKind::norm, "before", u);
          require(units_[u].exchanges == exchanges(u), refines(u) ? OpKind::hand_out : OpKind::fold, "before", u);
          once(units_[u].updates, "updates its unit");
        }
        return;
      default:  // collectives and transfers: rules of what they bring
        return;
    }
  }

  // A block comes in runs of parts, one after the other.
  void run_parts(const Op& op, uint32_t microbatch, uint8_t Runs::*of) {
    const std::vector<PartRun>& runs = orders_[op.block].runs(op.kind);
    uint8_t& done = runs_[op.block * layout_.microbatches + microbatch].*of;
    if (done >= runs.size()) return once(done, "runs its block and microbatch");
    const PartRun& next = runs[done];
    ++done;
    if (op.parts == next.parts && op.half == next.half) return;
    const auto shown = [](models::Half half) {
      return half == models::Half::both ? "" : half == models::Half::input ? ", inputs" : ", weights";
    };
    fail(fmt::format("runs parts {} to {}{} of '{}', where {} to {}{} come next", op.parts.first, op.parts.end - 1,
                     shown(op.half), layout_.model->blocks[op.block]->name(), next.parts.first, next.parts.end - 1,
                     shown(next.half)),
         OpKind::begin);
  }
  static bool names(const Op& op, Role role) {
    return std::any_of(op.accesses.begin(), op.accesses.end(),
                       [&](const Access& access) { return access.role == role; });
  }
  // A microbatch's loss is counted once, by the run of parts that computes it; likewise what a router does.
  void require_loss(const Op& op) const {
    const models::Block& block = *layout_.model->blocks[op.block];
    const bool inputs = op.half != models::Half::weight, predicts = layout_.model->predicts(op.block);
    const std::optional<size_t> routing = block.routing_part();
    const bool routes = inputs && routing && op.parts.has(*routing);
    const bool computes = (inputs && predicts && op.parts.has(block.anatomy().loss_part(true))) || routes;
    const bool counts = names(op, Role::control);
    const bool spreads = routes && block.experts() > 0;
    if (spreads != names(op, Role::loads)) {
      fail(spreads ? "does not count the loads of the experts that it routes to"
                   : "counts loads of experts that another run of parts routes to",
           OpKind::begin);
    }
    if (computes == counts) return;
    const char* of = predicts ? "loss" : "router's work";
    fail(counts ? fmt::format("counts a {} that another run of parts computes", of)
                : fmt::format("does not count the {} that it computes", of),
         OpKind::begin);
  }
  static bool sends_forward(const Op& op) {
    return op.accesses.front().role == Role::output || op.accesses.front().role == Role::input;
  }

  void require_border(const Op& op, bool border) const {
    if (!border) {
      fail(fmt::format("hands over something of '{}', which is at no border of the stage there",
                       layout_.model->blocks[op.block]->name()),
           OpKind::begin);
    }
  }

  void require_decided() const {
    if (layout_.update_when != UpdateWhen::after_norm) return require(ahead_ > 0, OpKind::decide_ahead);
    require(decisions_ > 0, OpKind::decide);
  }

  bool refines(uint32_t u) const { return layout_.optimizer->refines(layout_.units.units[u].group); }
  // Returns the number of exchanges of a unit in a step.
  uint32_t exchanges(uint32_t u) const {
    return refines(u) ? 4 : 3 * layout_.optimizer->rounds(layout_.units.units[u]);
  }

  // Counts sum, share and fold of one round after the other; or what comes before the update of a unit that is refined.
  void exchange(const Op& op, uint32_t u) {
    constexpr std::array<OpKind, 3> sums{OpKind::sum, OpKind::share_sums, OpKind::fold};
    constexpr std::array<OpKind, 4> refinement{OpKind::propose, OpKind::collect, OpKind::refine, OpKind::hand_out};
    uint32_t& done = units_[u].exchanges;
    const bool next = done < exchanges(u) &&
                      (refines(u) ? op.kind == refinement[done] : op.kind == sums[done % 3] && op.round == done / 3);
    if (next) {
      ++done;
      return;
    }
    throw Fault({&program_, now_, no_buffer, u},
                fmt::format("op {} is out of order behind {}: '{}' has had {} of the {} {} of a step",
                            name(program_, now_), name(program_, before(program_, now_)), layout_.units.units[u].name,
                            done, exchanges(u), refines(u) ? "ops that refine it" : "sums, shares and folds"));
  }

  void once(uint8_t& count, const char* what) {
    if (count++ == 0) return;
    const Op& op = program_.ops[now_.op];
    const uint32_t microbatch = op.microbatch.at(now_.turn);
    Execution first;
    for_each_execution(program_, ~0u, [&](OpId id, uint32_t turn) {
      const Op& other = program_.ops[id];
      const bool same = other.kind == op.kind && other.block == op.block && other.units == op.units &&
                        other.microbatch.at(turn) == microbatch;
      if (same && !first.known()) first = {id, turn};
    });
    throw Fault({&program_, now_}, fmt::format("op {} {} (microbatch {}) a second time after {}", name(program_, now_),
                                               what, microbatch, name(program_, first)));
  }

  // The op depends on one of `kind` (of a unit, where one is named), or must not come behind it.
  void require(bool met, OpKind kind, const char* order = "before", uint32_t unit = ~0u) const {
    if (met) return;
    fail(fmt::format("comes {} the '{}'{} that it must {}", order, op_kind_name(kind),
                     unit == ~0u ? "" : fmt::format(" of '{}'", layout_.units.units[unit].name),
                     std::string_view(order) == "before" ? "follow" : "precede"),
         kind, unit);
  }

  // Names the op that `what` is about: the first of its kind and unit, or, without one, what this op follows.
  [[noreturn]] void fail(const std::string& what, OpKind kind, uint32_t unit = ~0u) const {
    const Execution front = before(program_, now_);
    const OpId behind = now_.op + 1;
    std::string other = front.known() || behind >= program_.ops.size()
                            ? name(program_, front) + " is what it follows"
                            : fmt::format("'{}' follows it", program_.ops[behind].name);
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      const Op& op = program_.ops[id];
      const bool of_unit = unit == ~0u || std::find(op.units.begin(), op.units.end(), unit) != op.units.end();
      if (op.kind != kind || !of_unit || id == now_.op) continue;
      other = fmt::format("that is '{}'", op.name);
      break;
    }
    throw Fault({&program_, now_, no_buffer, unit}, fmt::format("op {} {}; {}", name(program_, now_), what, other));
  }

  // The buffer that some op of `block`, or for the control block any op, names as its `role`.
  BufferId buffer_of(Role role, size_t block) const {
    for (const Op& op : program_.ops) {
      for (const Access& access : op.accesses) {
        if (access.role == role && (role == Role::control || op.block == block)) return access.buffer;
      }
    }
    return no_buffer;
  }

  void happened(uint32_t count, const char* what, const std::string& of, Role role, size_t block) const {
    if (count == 0) missing(what, of, {&program_, {}, buffer_of(role, block)});
  }
  void happened_to(uint32_t unit, uint32_t count, const char* what) const {
    if (count == 0) missing(what, layout_.units.units[unit].name, {&program_, {}, no_buffer, unit});
  }
  [[noreturn]] void missing(const char* what, const std::string& of, const FaultPlace& place) const {
    throw Fault(place, fmt::format("{} of '{}' does not happen between '{}' and '{}', the first and the last op of "
                                   "the program '{}'",
                                   what, of, program_.ops.front().name, program_.ops.back().name, program_.phase));
  }

  void check_microbatches() const {
    for (uint32_t m = 0; m < layout_.microbatches; ++m) {
      for (size_t b = 0; b < layout_.model->blocks.size(); ++b) {
        const Runs& runs = runs_[b * layout_.microbatches + m];
        const std::string of = fmt::format("{}, microbatch {},", layout_.model->blocks[b]->name(), m);
        happened(runs.forward == orders_[b].runs(OpKind::forward).size(), "the forward", of, Role::output, b);
        happened(runs.recompute == orders_[b].runs(OpKind::recompute).size(), "the recompute", of, Role::saved, b);
        happened(runs.backward == orders_[b].runs(OpKind::backward).size(), "the backward", of, Role::d_output, b);
        if (layout_.model->receives(b)) {
          happened(runs.received, "the receive of the input", of, Role::input, b);
          happened(runs.gradient_sent, "the send of the input's gradient", of, Role::d_input, b);
        }
        if (layout_.model->sends(b)) {
          happened(runs.sent, "the send of the output", of, Role::output, b);
          happened(runs.gradient_received, "the receive of the output's gradient", of, Role::d_output, b);
        }
      }
      const bool ends = layout_.model->has_embedding() || layout_.model->has_head();
      if (ends || layout_.documents) {
        happened(batches_[m], "the batch", fmt::format("microbatch {}", m), ends ? Role::tokens : Role::positions,
                 layout_.model->has_embedding() || !ends ? 0 : layout_.model->blocks.size() - 1);
      }
    }
  }

  const Program& program_;
  const Layout& layout_;
  const std::vector<PartOrder>& orders_;
  Execution now_;
  std::vector<UnitState> units_;
  std::vector<Runs> runs_;        // [block][microbatch]
  std::vector<uint8_t> batches_;  // by microbatch
  uint8_t begins_ = 0, ahead_ = 0, shares_ = 0, decisions_ = 0;
};

}  // namespace

void check_step(const Program& program, const Layout& layout, const std::vector<PartOrder>& orders) {
  StepChecker(program, layout, orders).check();
}

}  // namespace zrt::runtime::verification

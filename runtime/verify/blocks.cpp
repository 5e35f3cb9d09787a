#include <fmt/format.h>

#include <algorithm>

#include "runtime/ops/spec.h"
#include "runtime/verify/checks.h"
#include "runtime/verify/execution.h"
#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {
namespace {

using models::Half;
using models::Port;

class BlockChecker {
 public:
  BlockChecker(const Program& program, OpId id, const Layout& layout, const PartOrder& order)
      : program_(program),
        id_(id),
        op_(program.ops[id]),
        layout_(layout),
        block_(*layout.model->blocks[op_.block]),
        order_(order),
        backward_(op_.kind == OpKind::backward) {}

  void check() const {
    const auto& runs = order_.runs(op_.kind);
    if (std::find(runs.begin(), runs.end(), PartRun{op_.parts, op_.half}) == runs.end()) {
      fail(fmt::format("runs parts {} to {} of '{}', which is no run of parts without an exchange in between",
                       op_.parts.first, op_.parts.end - 1, block_.name()));
    }
    const auto& ports = block_.anatomy().ports;
    for (size_t p = 0; p < ports.size(); ++p) backward_ ? check_backward(p, ports[p]) : check_forward(p, ports[p]);
    check_kept();
  }

 private:
  // A recompute begins with what its first part has kept.
  void check_forward(size_t p, const Port& port) const {
    const bool goes_on = op_.parts.first == port.part + 1u && op_.parts.first > order_.whole(op_.kind).first;
    const bool finds = op_.kind == OpKind::recompute && order_.makes_port(op_.parts);
    if (goes_on && !finds && order_.cut(port.part, false)) require_port(p, port, Role::port);
  }

  // The half of inputs goes on with the gradient of what its last part has handed on. That of weights takes gradients
  // of what its parts have handed on, but for what enters the next one: such parts hold what they need.
  void check_backward(size_t p, const Port& port) const {
    const bool for_weights = op_.parts.has(port.part) && port.seam.of_product();
    const bool goes_on = op_.half == Half::weight ? for_weights : op_.parts.end == port.part + 1u;
    if (goes_on && order_.cut(port.part, true)) require_port(p, port, Role::d_port);
    if (op_.half != Half::input && order_.reads_back(port, op_.parts)) require_port(p, port, Role::port);
  }

  // A forward keeps what the backward reads, others in several runs what the next one does.
  void check_kept() const {
    const models::Mode mode = op_.kind == OpKind::evaluate ? models::Mode::eval
                              : op_.kind == OpKind::decode ? models::Mode::decode
                                                           : models::Mode::train;
    const bool trains = mode == models::Mode::train;
    const models::Shape shape = layout_.shape(mode, op_.block);
    if (mode == models::Mode::decode && block_.cache_bytes(shape) > 0) require(Role::cache);
    if (op_.half == Half::weight) return;
    if (!trains && order_.runs(op_.kind).size() == 1) return;
    bool saved = false, recomputed = false;
    for (size_t part = 0; part < block_.anatomy().parts.size() && !(saved && recomputed); ++part) {
      bool& kept = trains && order_.left_out().has(part) ? recomputed : saved;
      kept = kept || block_.saved_bytes(shape, part) > 0;
    }
    if (saved) require(Role::saved);
    if (recomputed && !(op_.kind == OpKind::recompute && order_.makes_port(op_.parts))) require(Role::recomputed);
  }

  void require(Role role) const {
    const bool named = std::any_of(op_.accesses.begin(), op_.accesses.end(),
                                   [&](const Access& access) { return access.role == role; });
    if (named) return;
    fail(fmt::format("names no buffer as its {}, where '{}' keeps something", role_name(role), block_.name()));
  }

  // A run names what it takes from the run before it; that has to have made it (ActivationRule).
  void require_port(size_t p, const Port& port, Role role) const {
    const bool named = std::any_of(op_.accesses.begin(), op_.accesses.end(), [&](const Access& access) {
      return access.role == role && access.port == p && access.use != Use::write;
    });
    if (named) return;
    fail(fmt::format("does not read the {}'{}' of '{}'", role == Role::d_port ? "gradient of " : "", port.name,
                     block_.name()));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Fault({&program_, {id_, 0}},
                fmt::format("program '{}' is not safe: {} {}; it follows {}", program_.phase, name(program_, {id_, 0}),
                            what, name(program_, before(program_, {id_, 0}))));
  }

  const Program& program_;
  OpId id_;
  const Op& op_;
  const Layout& layout_;
  const models::Block& block_;
  const PartOrder& order_;
  bool backward_;
};

}  // namespace

void check_blocks(const Program& program, const Layout& layout, const std::vector<PartOrder>& orders) {
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (runs_block(op.kind)) BlockChecker(program, id, layout, orders[op.block]).check();
  }
}

}  // namespace zrt::runtime::verification

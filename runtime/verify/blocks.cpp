#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/ops/spec.h"
#include "runtime/verify/checks.h"
#include "runtime/verify/place.h"

namespace zrt::runtime::verification {
namespace {

using models::Half;
using models::Parts;
using models::Port;

class BlockChecker {
 public:
  BlockChecker(const Program& program, OpId id, const Layout& layout, const PartOrder& order)
      : program_(program),
        id_(id),
        op_(program.ops[id]),
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
  }

 private:
  void check_forward(size_t p, const Port& port) const {
    const Parts whole = order_.whole(op_.kind);
    const size_t border = port.part + 1u;
    const bool alone = op_.kind == OpKind::recompute && order_.makes_port(op_.parts);
    const bool crosses = order_.cut(port.part, false) && border > whole.first && border < whole.end;
    if (crosses && !alone && op_.parts.first == border) require(p, port, Role::port, false);
    if ((crosses || alone) && op_.parts.end == border) require(p, port, Role::port, true);
  }

  // The half of inputs hands gradients on from part to part; that of weights reads those of what its parts have made.
  void check_backward(size_t p, const Port& port) const {
    const size_t border = port.part + 1u;
    const bool crosses = order_.cut(port.part, true), inputs = op_.half != Half::weight;
    const bool stays_for_weights = port.seam.of_product();
    const bool takes = inputs ? op_.parts.end == border : op_.parts.has(port.part) && stays_for_weights;
    if (crosses && takes) require(p, port, Role::d_port, false);
    if (crosses && inputs && op_.parts.first == border) require(p, port, Role::d_port, true);
    if (op_.half != Half::input && order_.reads_back(port, op_.parts)) require(p, port, Role::port, false);
  }

  void require(size_t p, const Port& port, Role role, bool writes) const {
    const bool named = std::any_of(op_.accesses.begin(), op_.accesses.end(), [&](const Access& access) {
      return access.role == role && access.port == p && (access.use == Use::write) == writes;
    });
    if (named) return;
    fail(fmt::format("does not {} the {}'{}' of '{}'", writes ? "write" : "read",
                     role == Role::d_port ? "gradient of " : "", port.name, block_.name()));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw core::ProgramError(fmt::format("program '{}' is not safe: {} {}; it follows {}", program_.phase,
                                         name(program_, {id_, 0}), what, name(program_, before(program_, {id_, 0}))));
  }

  const Program& program_;
  OpId id_;
  const Op& op_;
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

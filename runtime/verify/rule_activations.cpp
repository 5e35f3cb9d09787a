#include <fmt/format.h>

#include <algorithm>

#include "runtime/ops/spec.h"
#include "runtime/program/export_piece.h"
#include "runtime/verify/fault.h"
#include "runtime/verify/rules.h"

namespace zrt::runtime::verification {

void ActivationRule::read() {
  const Op& op = walk_.op();
  const bool training = op.kind == OpKind::backward || op.kind == OpKind::recompute;
  const OpKind forward = training ? OpKind::forward : op.kind;
  if (op.kind == OpKind::gather_parts) require_group(op, walk_.layout.units.units[op.units.at(0)].part_axes());
  if (op.kind == OpKind::backward && op.half != models::Half::both) require_holding(op);
  require_positions(op);
  for (const Access& access : op.accesses) {
    if (access.use == Use::write) continue;
    switch (access.role) {
      case Role::tokens:
      case Role::targets:
      case Role::positions:
        require_made(access, OpKind::load_batch, 0, access.role);
        break;
      case Role::input:
        walk_.layout.model->receives(op.block) ? require_received(access, Role::input)
                                               : require_made(access, forward, op.block - 1, Role::output);
        break;
      case Role::d_output:
        walk_.layout.model->sends(op.block) ? require_received(access, Role::d_output)
                                            : require_made(access, OpKind::backward, op.block + 1, Role::d_input);
        break;
      case Role::output:  // of a send
        require_made(access, walk_.program.phase == "eval" ? OpKind::evaluate : OpKind::forward, op.block,
                     Role::output);
        break;
      case Role::d_input:
        require_made(access, OpKind::backward, op.block, Role::d_input);
        break;
      case Role::saved:
        require_made(access, forward, op.block, Role::saved);
        break;
      case Role::recomputed:
        // A forward goes on with what its run of parts before left there.
        require_made(access, op.kind == OpKind::forward ? forward : OpKind::recompute, op.block, Role::recomputed);
        break;
      case Role::held:
        require_held(access);
        break;
      case Role::port:
      case Role::d_port:
        require_port(access);
        break;
      case Role::all_parts:
        require_parts(access);
        break;
      case Role::shares:
        if (walk_.program.ops[walk_.at(access).made.op].kind == OpKind::share_control) break;
        walk_.fail(access, fmt::format("{} wrote it and shared no control block", walk_.name(walk_.at(access).made)));
      case Role::loads:
        require_emptied(access);
        break;
      case Role::control:
        if (follows_decision(op.kind) && walk_.layout.update_when != UpdateWhen::after_norm) require_ahead(access);
        break;
      default:
        break;
    }
  }
}

// A block that does not know where the documents of a sample begin would attend to all of them.
void ActivationRule::require_positions(const Op& op) const {
  if (!walk_.layout.documents || !runs_block(op.kind) || op.kind == OpKind::decode) return;
  if (op.half == models::Half::weight || !walk_.layout.model->blocks[op.block]->reads_positions()) return;
  const auto reads = [](const Access& access) { return access.role == Role::positions; };
  if (std::any_of(op.accesses.begin(), op.accesses.end(), reads)) return;
  walk_.fail("does not read the positions of its microbatch, without which documents attend to each other");
}

// The step's begin has emptied it; it empties nothing else.
void ActivationRule::require_emptied(const Access& access) const {
  const Execution made = walk_.at(access).made;
  if (made.known() && walk_.program.ops[made.op].kind == OpKind::begin) return;
  walk_.fail(access, fmt::format("no begin has emptied it; {} wrote it", walk_.name(made)));
}

// It came from the neighbouring stage and, where ranks share it, has been brought together since.
void ActivationRule::require_received(const Access& access, Role role) const {
  require_group(walk_.op());
  require_made(access, OpKind::receive, walk_.op().block, role);
  const Execution changed = walk_.at(access).changed;
  const bool together = walk_.at(access).together;
  const bool shared = walk_.layout.mesh.tensor() > 1 && !walk_.layout.shares_rows();
  const bool wanted = shared && walk_.op().kind != OpKind::gather_received;
  if (together == wanted) return;
  walk_.fail(access, together
                         ? fmt::format("{} has brought its shares together already", walk_.name(changed))
                         : fmt::format("{} left this rank's share there; a gather is missing", walk_.name(changed)));
}

// A port is exchanged among the ranks of its seam; all else that ranks of a block give each other goes among these.
void ActivationRule::require_group(const Op& op, Axes axes) const {
  const bool among =
      op.kind == OpKind::exchange || op.kind == OpKind::gather_parts || op.kind == OpKind::gather_received;
  if (!among || walk_.set.group(op).axes == axes) return;
  walk_.fail(fmt::format("goes among the ranks of '{}', which do not share blocks; what it follows is {}",
                         walk_.set.group(op).name, walk_.name(before(walk_.program, walk_.now))));
}

// The block's parts have a buffer for what they hold between the halves of a backward.
void ActivationRule::require_holding(const Op& op) const {
  const auto held = [](const Access& access) { return access.role == Role::held; };
  const models::Block& block = *walk_.layout.model->blocks[op.block];
  if (std::any_of(op.accesses.begin(), op.accesses.end(), held)) return;
  if (models::lay_out_held(block, walk_.layout.shape(models::Mode::train, op.block), op.parts) == 0) return;
  walk_.fail(
      fmt::format("has no buffer for what its parts hold from the half of inputs to that of weights; it follows {}",
                  walk_.name(before(walk_.program, walk_.now))));
}

// The input halves of these parts left it, of this microbatch: one run, or where weights come apart all of the block's.
void ActivationRule::require_held(const Access& access) const {
  const Op& op = walk_.op();
  require_made(access, OpKind::backward, op.block, Role::held);
  const Content& content = walk_.at(access);
  const Op &maker = walk_.program.ops[content.made.op], &last = walk_.program.ops[content.changed.op];
  const models::Parts whole = walk_.orders[op.block].held_with(op.parts);
  const bool goes_on = op.half == models::Half::input;
  const bool begun = maker.half == models::Half::input && maker.parts.end == whole.end;
  const bool so_far = last.half == models::Half::input && last.parts.first == (goes_on ? op.parts.end : whole.first);
  if (begun && so_far) return;
  walk_.fail(access, fmt::format("{} wrote it, of other parts", walk_.name(begun ? content.changed : content.made)));
}

// An export tells all pieces of a unit in their order, each as the ranks have just brought it together.
void ActivationRule::require_parts(const Access& access) {
  const Execution made = walk_.at(access).made;
  const Op& maker = walk_.program.ops[made.op];
  // Ranks with other tensors tell of theirs in turns.
  const bool spread = walk_.layout.units.units[walk_.op().units.at(0)].spread();
  const bool now = (!spread || made.turn == walk_.now.turn) && maker.round == walk_.op().round;
  const uint32_t unit = walk_.op().units.at(0), pieces = export_pieces(walk_.layout, walk_.layout.units.units[unit]);
  uint32_t& next = pieces_[unit];
  if (walk_.op().round != next) {
    walk_.fail(access, fmt::format("tells piece {} of '{}', of which {} comes next", walk_.op().round,
                                   walk_.unit_name(unit), next));
  }
  next = (next + 1) % pieces;
  if (maker.kind == OpKind::gather_parts && maker.units == walk_.op().units && now) return;
  walk_.fail(access, fmt::format("{} wrote it, which gathered no parts of '{}'", walk_.name(made),
                                 walk_.unit_name(walk_.op().units.at(0))));
}

void ActivationRule::end() const {
  for (const auto& [unit, next] : pieces_) {
    if (next == 0) continue;
    throw Fault({&walk_.program, {}, no_buffer, unit},
                fmt::format("program '{}' is not safe: it leaves out piece {} of '{}'", walk_.program.phase, next,
                            walk_.unit_name(unit)));
  }
}

// A run of parts made it for this microbatch, and where ranks share the work of the block they have exchanged it since,
// once.
void ActivationRule::require_port(const Access& access) const {
  const Op& op = walk_.op();
  const Content& content = walk_.at(access);
  const Op &maker = walk_.program.ops[content.made.op], &last = walk_.program.ops[content.changed.op];
  const bool backward = access.role == Role::d_port;
  const models::Port& port = walk_.layout.model->blocks[op.block]->anatomy().ports[access.port];
  const auto made_as = std::find_if(maker.accesses.begin(), maker.accesses.end(), [&](const Access& made) {
    return made.buffer == access.buffer && made.role == access.role && made.port == access.port;
  });
  const bool made = runs_block(maker.kind) && (maker.kind == OpKind::backward) == backward && maker.block == op.block &&
                    made_as != maker.accesses.end() && maker.microbatch.at(content.made.turn) == walk_.microbatch();
  if (!made) {
    walk_.fail(access,
               fmt::format("{} wrote it, where a run of parts of '{}' should have, of microbatch {}",
                           walk_.name(content.made), walk_.layout.model->blocks[op.block]->name(), walk_.microbatch()));
  }
  require_group(op, port.seam.axis);
  const bool meant = last.kind != OpKind::exchange || last.port == access.port;
  const bool completes = op.kind == OpKind::exchange && access.use == Use::update;  // else it reads it, as any other op
  if (!meant || (completes && op.port != access.port)) {
    walk_.fail(access, fmt::format("{} exchanged it as another port", walk_.name(meant ? walk_.now : content.changed)));
  }
  const bool exchanged = last.kind == OpKind::exchange;
  const models::Collective completed = walk_.orders[op.block].completed_by(port, backward);
  if (completes && op.collective != completed) {
    walk_.fail(access, fmt::format("completes it by {}, where its seam says {}; {} made it",
                                   models::collective_name(op.collective), models::collective_name(completed),
                                   walk_.name(content.made)));
  }
  const bool wanted = !completes && completed != models::Collective::none;
  if (exchanged == wanted) return;
  const std::string how = fmt::format("{} {}", models::collective_name(completed), walk_.among(port.seam.axis));
  walk_.fail(access, exchanged ? fmt::format("{} has exchanged it already, by {}", walk_.name(content.changed), how)
                               : fmt::format("{} left this rank's part there; an exchange is missing, by {}",
                                             walk_.name(content.changed), how));
}

// Updates that do not wait for the norm must not follow what the step before decided.
void ActivationRule::require_ahead(const Access& access) const {
  const Content& content = walk_.at(access);
  if (content.made.known() && walk_.program.ops[content.made.op].kind == OpKind::decide_ahead) return;
  walk_.fail(access, fmt::format("{} wrote it, where 'decide_ahead' should have", walk_.name(content.changed)));
}

// The bytes are of this program: nothing that these roles name is kept.
void ActivationRule::require_made(const Access& access, OpKind kind, uint32_t block, Role role) const {
  const Execution made = walk_.at(access).made;
  const Op& maker = walk_.program.ops[made.op];
  if (maker.kind != kind || maker.block != block || walk_.at(access).role != role) {
    walk_.fail(access, fmt::format("{} wrote it, where '{}' of block '{}' should have", walk_.name(made),
                                   op_kind_name(kind), walk_.layout.model->blocks[block]->name()));
  }
  const uint32_t theirs = maker.microbatch.at(made.turn);
  if (theirs == walk_.microbatch()) return;
  walk_.fail(access, fmt::format("it works on microbatch {} and {} wrote microbatch {}", walk_.microbatch(),
                                 walk_.name(made), theirs));
}

}  // namespace zrt::runtime::verification

#include "runtime/verify/rule_gathers.h"

#include <fmt/format.h>

#include "runtime/ops/spec.h"
#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {
namespace {

bool brings_together(OpKind kind) {
  return gathers(kind) || kind == OpKind::gather_parts || kind == OpKind::share_control;
}

}  // namespace

// An op reads as many buffers as it brings together, in the same order.
const Access* GatherRule::source_of(const Access& access) const {
  size_t written = 0, nth = 0, sources = 0;
  for (const Access& other : walk_.op().accesses) {
    if (other.role == Role::packed) continue;  // the op alone reads it
    if (&other == &access) nth = written;
    other.use == Use::write ? ++written : ++sources;
  }
  if (written != sources) return nullptr;
  for (const Access& other : walk_.op().accesses) {
    if (other.use == Use::read && nth-- == 0) return &other;
  }
  return nullptr;
}

void GatherRule::read() {
  const Op& op = walk_.op();
  const bool brings = brings_together(op.kind), block = runs_block(op.kind) && op.half != models::Half::weight;
  if (block) count_use();
  for (const Access& access : op.accesses) {
    Content& content = walk_.at(access);
    const bool in_place = brings && access.use == Use::update;
    if (access.use != Use::write && !in_place) {
      if (block && access.role == Role::weight) use_block(access);
      if (access.role == Role::partial && gathers(op.kind)) use_part(access);
      brought_[walk_.slot(access)].reader = walk_.now;
      content.unread = false;
    }
    if (!brings || access.use == Use::read || access.role == Role::packed) continue;
    if (content.unread) {
      walk_.fail(access, fmt::format("{} has brought the same together there, {}, and nobody has read it since",
                                     walk_.name(content.changed), walk_.among(walk_.set.group(op).axes)));
    }
    bring(access, access.use == Use::write ? source_of(access) : nullptr);
  }
}

void GatherRule::count_use() {
  const auto forward = [](const Op& of) { return of.kind != OpKind::backward && of.kind != OpKind::recompute; };
  const auto segment = [&](OpId id) {
    size_t number = 0;
    for (const Segment& each : walk_.program.segments) number += each.first <= id;
    return number;
  };
  const Op &op = walk_.op(), *last = block_.known() ? &walk_.program.ops[block_.op] : nullptr;
  const bool same = last && last->block == op.block && (forward(*last) == forward(op) || walk_.layout.reuse_at_turn);
  use_ += !same;
  const bool follows = same && block_.turn == walk_.now.turn;
  stretch_ += !follows || (block_.op != walk_.now.op && segment(block_.op) != segment(walk_.now.op));
  block_ = walk_.now;
}

void GatherRule::bring(const Access& access, const Access* from) {
  Brought& brought = brought_[walk_.slot(access)];
  if (!from) {
    brought = {};
    return;
  }
  const size_t slot = walk_.slot(*from);
  const Execution source = walk_.at(*from).changed;
  // Ranks that have other tensors each tell of theirs in turns, and all of them in pieces.
  const auto others = [&] {
    return brought.by.turn != walk_.now.turn || walk_.program.ops[brought.by.op].round != walk_.op().round;
  };
  const bool turned = walk_.op().kind == OpKind::gather_parts && brought.by.known() && others();
  const bool there = !turned && brought.by.known() && brought.from == slot && brought.source == source &&
                     brought.reader.known() && walk_.at(access).changed == brought.by;
  if (!there) brought = {};
  brought.from = slot;
  brought.source = source;
  brought.by = walk_.now;
  if (!there) return;
  brought.again = walk_.now;
  // It may be for another use of a block, or on the first of two levels for another gather on the second. Contents that
  // other readers have read stay, and so do secondary shards.
  const OpKind reader = walk_.program.ops[brought.reader.op].kind;
  const bool kept = access.role == Role::partial && walk_.layout.groups.secondary;
  if (!kept && (runs_block(reader) || gathers(reader))) return;
  walk_.fail(access, fmt::format("brings together what {} has read there, and nothing has changed since",
                                 walk_.name(brought.reader)));
}

void GatherRule::use_block(const Access& access) {
  Brought& brought = brought_[walk_.slot(access)];
  if (!brought.by.known() || walk_.set.buffers[access.buffer].life == Life::carried) return;
  const Layout& layout = walk_.layout;
  const bool again = brought.again.known();
  const bool read = brought.reader.known() && runs_block(walk_.program.ops[brought.reader.op].kind);
  if (read && again && brought.stretch == stretch_) {
    walk_.fail(access, fmt::format("{} has brought it together again since {} read it, and nothing has changed since",
                                   walk_.name(brought.again), walk_.name(brought.reader)));
  }
  // A step may keep what it has gathered for several uses.
  const bool kept =
      walk_.program.phase == "step" && layout.stage.pipelined() && layout.gathered_for != GatheredFor::use;
  if (read && !again && brought.use != use_ && !kept) {
    walk_.fail(access, fmt::format("{} brought it together for the use that ended with {}, and not again for this one; "
                                   "a gather is missing",
                                   walk_.name(brought.by), walk_.name(brought.reader)));
  }
  brought.use = use_;
  brought.stretch = stretch_;
  brought.again = {};
}

// A gather inside an island reads what one between islands has brought for it. Secondary shards stay for several.
void GatherRule::use_part(const Access& access) {
  Brought& brought = brought_[walk_.slot(access)];
  const bool read = brought.reader.known() && gathers(walk_.program.ops[brought.reader.op].kind);
  if (brought.by.known() && read && !brought.again.known() && !walk_.layout.groups.secondary) {
    walk_.fail(access, fmt::format("{} brought it together for {}, and not again for this one; a gather is missing",
                                   walk_.name(brought.by), walk_.name(brought.reader)));
  }
  brought.again = {};
}

void GatherRule::write() {
  const bool brings = brings_together(walk_.op().kind);
  for (const Access& access : walk_.op().accesses) {
    if (access.use != Use::read) walk_.at(access).unread = brings && access.role != Role::packed;
  }
}

// A kept buffer may be for a program behind this one.
void GatherRule::end() const {
  for (BufferId b = 0; b < walk_.set.buffers.size(); ++b) {
    const Buffer& buffer = walk_.set.buffers[b];
    for (uint32_t s = 0; s < buffer.slots && buffer.life != Life::carried; ++s) {
      const Content& content = walk_.at(b, s);
      if (!content.unread) continue;
      throw Fault({&walk_.program, content.changed, b},
                  fmt::format("program '{}' is not safe: {} brings together what nobody reads in '{}'; what it follows "
                              "is {}",
                              walk_.program.phase, walk_.name(content.changed), buffer.name,
                              walk_.name(before(walk_.program, content.changed))));
    }
  }
}

}  // namespace zrt::runtime::verification

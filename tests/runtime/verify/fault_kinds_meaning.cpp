// Faults of weights, gradients, microbatches and the order of a step.
#include "tests/runtime/verify/fault_kinds.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::testing {
namespace {

using runtime::Access;
using runtime::Axis;
using runtime::BufferId;
using runtime::Op;
using runtime::OpId;
using runtime::OpKind;
using runtime::Program;
using runtime::Role;
using runtime::Use;

Program& step(Broken& broken) {
  return program_of(broken.set, "step");
}

using Test = std::function<bool(const Op&)>;
Test is(OpKind kind) {
  return [kind](const Op& op) { return op.kind == kind; };
}

// The nth op of the step that `suits`; the number of ops when there are fewer.
OpId nth(const Program& program, const Test& suits, size_t n) {
  for (OpId id = 0; id < program.ops.size(); ++id) {
    if (suits(program.ops[id]) && n-- == 0) return id;
  }
  return static_cast<OpId>(program.ops.size());
}

// Changes the nth op that `suits`.
std::function<bool(Broken&, size_t)> change(Test suits, std::function<void(Broken&, Program&, OpId)> apply) {
  return [suits = std::move(suits), apply = std::move(apply)](Broken& broken, size_t n) {
    Program& program = step(broken);
    const OpId id = nth(program, suits, n);
    if (id == program.ops.size()) return false;
    apply(broken, program, id);
    return true;
  };
}

// True for a gather that nothing depends on: what it brings together is there already, from one before it or because it
// has never been apart; or another gather follows before anybody reads it.
bool repeats(const Broken& broken, const Op& gather) {
  if (gather.kind != OpKind::gather && gather.kind != OpKind::gather_grad) return false;
  const BufferId buffer = gather.accesses.back().buffer;
  const bool kept = broken.set.buffers[buffer].life != runtime::Life::transient;
  if (kept && broken.layout->units.units[gather.units[0]].shards() == 1) return true;
  if (gather.kind == OpKind::gather_grad) return false;
  bool behind = false;
  for (const Op& op : broken.set.program("step").ops) {
    if (&op == &gather) {
      behind = true;
      continue;
    }
    for (const Access& access : op.accesses) {
      if (access.buffer != buffer) continue;
      if (access.use != Use::read) return true;
      if (behind) return false;
    }
  }
  return false;
}

FaultKind removed(const char* name, const Test& suits, bool everywhere = true) {
  return {name, everywhere, [suits](Broken& broken, size_t n) {
            Program& program = step(broken);
            const OpId id = nth(
                program, [&](const Op& op) { return suits(op) && !repeats(broken, op); }, n);
            if (id == program.ops.size()) return false;
            drop_op(program, id);
            return true;
          }};
}
// The copy runs right before the op, after the same waits.
FaultKind doubled(const char* name, OpKind kind, bool everywhere = true) {
  return {name, everywhere, change(is(kind), [](Broken&, Program& p, OpId id) { insert_op(p, id, p.ops[id]); })};
}

// A fault that only a few subjects have.
FaultKind rare(FaultKind kind) {
  kind.least = 4;
  return kind;
}

// Moves the op behind the last, or in front of the first, op of another kind in the last segment.
std::function<bool(Broken&, size_t)> misplaced(OpKind kind, OpKind other) {
  return [=](Broken& broken, size_t n) {
    Program& program = step(broken);
    const OpId from = nth(program, is(kind), n), to = nth(program, is(other), 0);
    if (from == program.ops.size() || to == program.ops.size()) return false;
    if (&segment_of(program, from) != &segment_of(program, to)) return false;
    move_op(program, from, to);
    return true;
  };
}

// Returns what an access names: for weights and gradients a unit, else a buffer.
uint32_t meant(const Op& op, const Access& access) {
  if (access.role != Role::weight && access.role != Role::grad) return access.buffer;
  size_t nth = 0;
  for (const Access* other = op.accesses.data(); other != &access; ++other) nth += other->role == access.role;
  return op.units[nth];
}

// Puts what an op before this one uses in the same role, and means something else by, in place of the buffer.
bool other_buffer(Broken& broken, size_t n, Role role) {
  auto& ops = step(broken).ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    for (Access& access : ops[i].accesses) {
      if (access.role != role || access.use != Use::read) continue;
      const uint32_t right = meant(ops[i], access);
      for (size_t j = 0; j < i; ++j) {
        for (const Access& other : ops[j].accesses) {
          if (other.role != role || other.use != Use::read || meant(ops[j], other) == right || n-- > 0) continue;
          access.buffer = other.buffer;
          return true;
        }
      }
    }
  }
  return false;
}

// A backward or reduction that defines adds, one that adds defines.
bool flip(Broken& broken, size_t n, OpKind kind, bool with_access) {
  for (Op& op : step(broken).ops) {
    if (op.kind != kind) continue;
    for (size_t i = 0; i < op.accumulate.size(); ++i) {
      std::vector<Access*> targets;
      for (Access& access : op.accesses) {
        const bool target = access.role == (kind == OpKind::backward ? Role::local_grad : Role::grad);
        if (target && access.use != Use::read) targets.push_back(&access);
      }
      // A reduction in place has no other flag.
      if (targets.size() <= i || n-- > 0) continue;
      op.accumulate[i] ^= 1;
      if (with_access) targets[i]->use = op.accumulate[i] ? Use::update : Use::write;
      return true;
    }
  }
  return false;
}

// Two ops of a block that work on different microbatches change them.
bool swap_microbatches(Broken& broken, size_t n) {
  auto& ops = step(broken).ops;
  for (size_t a = 0; a < ops.size(); ++a) {
    for (size_t b = a + 1; b < ops.size(); ++b) {
      const bool same =
          ops[a].kind == ops[b].kind && ops[a].block == ops[b].block &&
          (ops[a].kind == OpKind::forward || ops[a].kind == OpKind::recompute || ops[a].kind == OpKind::backward) &&
          ops[a].microbatch.first != ops[b].microbatch.first && ops[a].microbatch.step == ops[b].microbatch.step;
      if (!same || n-- > 0) continue;
      std::swap(ops[a].microbatch, ops[b].microbatch);
      return true;
    }
  }
  return false;
}

// Two backwards of a block that both add to its gradients change places; whoever waits for either still waits for the
// later one.
bool swap_backwards(Broken& broken, size_t n) {
  Program& program = step(broken);
  auto adds = [](const Op& op) {
    return op.kind == OpKind::backward &&
           std::all_of(op.accumulate.begin(), op.accumulate.end(), [](uint8_t flag) { return flag != 0; });
  };
  for (OpId a = 0; a < program.ops.size(); ++a) {
    for (OpId b = a + 1; b < program.ops.size() && adds(program.ops[a]); ++b) {
      Op &first = program.ops[a], &second = program.ops[b];
      if (!adds(second) || first.block != second.block || &segment_of(program, a) != &segment_of(program, b)) continue;
      if (n-- > 0) continue;
      std::swap(first, second);
      std::swap(first.waits, second.waits);
      return true;
    }
  }
  return false;
}

// An update that does not wait for the norm reads the control block itself.
bool old_decision(Broken& broken, size_t n) {
  if (!broken.layout->early_updates()) return false;
  Program& program = step(broken);
  const OpId id = nth(program, is(OpKind::update), n);
  if (id == program.ops.size()) return false;
  const BufferId control = program.ops[nth(program, is(OpKind::begin), 0)].accesses[0].buffer;
  for (Access& access : program.ops[id].accesses) {
    if (access.role == Role::control) access.buffer = control;
  }
  return true;
}

void next_unit(const Broken& broken, Op& op) {
  op.units.front() = (op.units.front() + 1) % static_cast<uint32_t>(broken.layout->units.units.size());
}

bool whole_gather(const Op& op) {
  return op.kind == OpKind::gather && op.accesses.front().use == Use::update;
}

}  // namespace

std::vector<FaultKind> meaning_faults() {
  // runtime::make_groups() has these groups first.
  auto level = [](OpKind kind, core::Axes axis) {
    return [=](const Op& op) { return op.kind == kind && op.group == (axis == Axis::inner ? 1 : 2); };
  };
  return {
      removed("op removed", [](const Op&) { return true; }),
      removed("begin removed", is(OpKind::begin)),
      removed("decision removed", is(OpKind::decide)),
      removed("gather between groups removed", level(OpKind::gather, runtime::outer_axes), false),
      removed("gather inside groups removed", level(OpKind::gather, Axis::inner), false),
      removed("reduction inside groups removed", level(OpKind::reduce_grad, Axis::inner), false),
      removed("reduction between groups removed", level(OpKind::reduce_grad, runtime::outer_axes), false),
      removed("gather of the updated weights removed", whole_gather, false),
      doubled("forward twice", OpKind::forward),
      doubled("backward twice", OpKind::backward),
      removed("recompute removed", is(OpKind::recompute), false),
      doubled("recompute twice", OpKind::recompute, false),
      {"recompute as another forward", false,
       change(is(OpKind::recompute), [](Broken&, Program& p, OpId id) { p.ops[id].kind = OpKind::forward; })},
      {"recompute of the next microbatch", false,
       change(is(OpKind::recompute), [](Broken&, Program& p, OpId id) { ++p.ops[id].microbatch.first; })},
      doubled("reduction twice", OpKind::reduce_grad),
      doubled("norm twice", OpKind::norm),
      doubled("update twice", OpKind::update),
      doubled("decision twice", OpKind::decide),
      doubled("begin twice", OpKind::begin),
      doubled("batch twice", OpKind::load_batch),
      {"decision after the first update", true, misplaced(OpKind::decide, OpKind::update)},
      {"update before the decision", true, misplaced(OpKind::update, OpKind::decide)},
      rare(removed("decision ahead removed", is(OpKind::decide_ahead), false)),
      rare(doubled("decision ahead twice", OpKind::decide_ahead, false)),
      rare({"update before a backward that reads the weights", false, misplaced(OpKind::update, OpKind::backward)}),
      {"update by the decision of the step before", false, old_decision},
      {"norm after the control block is shared", true, misplaced(OpKind::norm, OpKind::share_control)},
      {"shares before the norms", true, misplaced(OpKind::share_control, OpKind::norm)},
      {"flag of a backward flipped", true, [](Broken& b, size_t n) { return flip(b, n, OpKind::backward, false); }},
      {"flag and access of a backward flipped", true,
       [](Broken& b, size_t n) { return flip(b, n, OpKind::backward, true); }},
      {"flag of a reduction flipped", false,
       [](Broken& b, size_t n) { return flip(b, n, OpKind::reduce_grad, false); }},
      {"flag and access of a reduction flipped", false,
       [](Broken& b, size_t n) { return flip(b, n, OpKind::reduce_grad, true); }},
      {"gather of another unit", false,
       change(is(OpKind::gather), [](Broken& b, Program& p, OpId id) { next_unit(b, p.ops[id]); })},
      {"reduction of another unit", true,
       change(is(OpKind::reduce_grad), [](Broken& b, Program& p, OpId id) { next_unit(b, p.ops[id]); })},
      {"update of another unit", true,
       change(is(OpKind::update), [](Broken& b, Program& p, OpId id) { next_unit(b, p.ops[id]); })},
      {"another unit's weight", true, [](Broken& b, size_t n) { return other_buffer(b, n, Role::weight); }},
      {"another unit's gradient", true, [](Broken& b, size_t n) { return other_buffer(b, n, Role::grad); }},
      {"another block's input", true, [](Broken& b, size_t n) { return other_buffer(b, n, Role::input); }},
      {"another block's saved state", false, [](Broken& b, size_t n) { return other_buffer(b, n, Role::saved); }},
      {"another block's recomputed state", false,
       [](Broken& b, size_t n) { return other_buffer(b, n, Role::recomputed); }},
      {"microbatches swapped", false, swap_microbatches},
      {"backwards in another order", false, swap_backwards},
      {"batch of the next microbatch", true,
       change(is(OpKind::load_batch), [](Broken&, Program& p, OpId id) { ++p.ops[id].microbatch.first; })},
      {"backward of the next microbatch", true,
       change(is(OpKind::backward), [](Broken&, Program& p, OpId id) { ++p.ops[id].microbatch.first; })},
      {"repeated turns that do not go on", false,
       [](Broken& b, size_t n) {
         Program& p = step(b);
         for (OpId id = 0; id < p.ops.size(); ++id) {
           if (p.ops[id].microbatch.step == 0 || segment_of(p, id).repeat == 1 || n-- > 0) continue;
           p.ops[id].microbatch.step = 0;
           return true;
         }
         return false;
       }},
      {"sums of the wrong round", false,
       change([](const Op& op) { return op.kind == OpKind::sum || op.kind == OpKind::fold; },
              [](Broken&, Program& p, OpId id) { ++p.ops[id].round; })},
  };
}

size_t ops_named(const runtime::ProgramSet& set, const std::string& message) {
  const std::string sentence = message.substr(0, message.find("\n"));
  std::vector<std::string> names;
  for (const Program& program : set.programs) {
    for (const Op& op : program.ops) names.push_back('\'' + op.name + '\'');
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  size_t found = 0;
  for (const std::string& name : names) {
    for (size_t at = sentence.find(name); at != std::string::npos; at = sentence.find(name, at + 1)) ++found;
  }
  return found;
}

}  // namespace zrt::testing

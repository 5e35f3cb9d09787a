// Faults of copies between tiers.
#include "tests/runtime/verify/fault_kinds.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::testing {
namespace {

using runtime::Access;
using runtime::Buffer;
using runtime::BufferId;
using runtime::Op;
using runtime::OpId;
using runtime::OpKind;
using runtime::Program;
using runtime::Role;
using runtime::Use;

Access& access_of(Op& op, Role role) {
  return *std::find_if(op.accesses.begin(), op.accesses.end(), [&](const Access& a) { return a.role == role; });
}

std::function<bool(Broken&, size_t)> drop(OpKind kind) {
  return [kind](Broken& broken, size_t n) {
    Program& program = program_of(broken.set, "step");
    for (OpId id = 0; id < program.ops.size(); ++id) {
      if (program.ops[id].kind != kind || n-- > 0) continue;
      // Ops that waited for it wait for what it waited for, so that nothing but the copy is missing.
      const auto before = program.ops[id].waits;
      for (Op& op : program.ops) {
        if (std::find(op.waits.begin(), op.waits.end(), id) == op.waits.end()) continue;
        for (const OpId wait : before) {
          if (std::find(op.waits.begin(), op.waits.end(), wait) == op.waits.end()) op.waits.push_back(wait);
        }
      }
      drop_op(program, id);
      return true;
    }
    return false;
  };
}

// The nth op of the kind moves to, or from, the next buffer of that size and tier.
std::function<bool(Broken&, size_t)> misdirect(OpKind kind, Role role) {
  return [kind, role](Broken& broken, size_t n) {
    for (Op& op : program_of(broken.set, "step").ops) {
      if (op.kind != kind) continue;
      Access& access = access_of(op, role);
      const Buffer& right = broken.set.buffers[access.buffer];
      for (size_t i = 1; i < broken.set.buffers.size(); ++i) {
        const auto other = static_cast<BufferId>((access.buffer + i) % broken.set.buffers.size());
        const Buffer& wrong = broken.set.buffers[other];
        const bool like = wrong.tier == right.tier && wrong.bytes == right.bytes && wrong.slots >= right.slots;
        if (!like) continue;
        if (n-- > 0) break;
        access.buffer = other;
        return true;
      }
    }
    return false;
  };
}

// A copy goes in front of the op that changes what it copies, which waits for it, as it does for the change before: no
// race, but an old copy.
std::function<bool(Broken&, size_t)> too_early(OpKind kind) {
  return [kind](Broken& broken, size_t n) {
    Program& program = program_of(broken.set, "step");
    for (OpId id = 0; id < program.ops.size(); ++id) {
      if (program.ops[id].kind != kind) continue;
      const Access from = access_of(program.ops[id], Role::copied);
      const OpId first = segment_of(program, id).first;
      const auto writes = [&](OpId other) {
        const auto& accesses = program.ops[other].accesses;
        return std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) {
          return a.use != Use::read && a.buffer == from.buffer && a.slot.first == from.slot.first;
        });
      };
      for (OpId writer = id; writer-- > first;) {
        if (!writes(writer)) continue;
        if (n-- > 0) break;
        move_op(program, id, writer);
        Op& moved = program.ops[writer];
        std::erase_if(moved.waits, [&](OpId wait) { return wait > writer; });
        program.ops[writer + 1].waits.push_back(writer);
        for (OpId before = writer; before-- > first;) {
          if (!writes(before)) continue;
          if (program.ops[before].lane != moved.lane) moved.waits.push_back(before);
          break;
        }
        return true;
      }
    }
    return false;
  };
}

}  // namespace

std::vector<FaultKind> copy_faults() {
  return {
      {"fetch removed", true, drop(OpKind::fetch), 15, 2, true},
      {"evict removed", true, drop(OpKind::evict), 15, 1, true},
      {"fetch from another buffer", false, misdirect(OpKind::fetch, Role::copied), 15, 2, true},
      {"fetch into another buffer", false, misdirect(OpKind::fetch, Role::copy), 15, 2, true},
      {"evict of another buffer", false, misdirect(OpKind::evict, Role::copied), 15, 2, true},
      {"evict into another buffer", false, misdirect(OpKind::evict, Role::copy), 15, 2, true},
      {"fetched before the change", false, too_early(OpKind::fetch), 15, 2, true},
      {"evicted before the change", false, too_early(OpKind::evict), 15, 1, true},
  };
}

}  // namespace zrt::testing

// Faults of lanes, waits, buffers and slots.
#include <map>
#include <set>

#include "runtime/program/timeline.h"
#include "tests/runtime/verify/fault_kinds.h"
#include "tests/runtime/verify/mutate.h"

namespace zrt::testing {
namespace {

using runtime::Access;
using runtime::BufferId;
using runtime::Op;
using runtime::OpId;
using runtime::OpKind;
using runtime::Program;
using runtime::Use;

Program& step_of(Broken& broken) {
  return program_of(broken.set, "step");
}

// True where the executions of two ops that touch the same slot, one of them writing, are all ordered.
bool ordered(const runtime::ProgramSet& set, const Program& program, OpId a, OpId b) {
  const auto timeline = runtime::make_timeline(set, program);
  for (size_t i = 0; i < timeline.size(); ++i) {
    if (timeline[i].op != a && timeline[i].op != b) continue;
    for (size_t j = i + 1; j < timeline.size(); ++j) {
      if (timeline[j].op != (timeline[i].op == a ? b : a)) continue;
      bool conflict = false;
      for (const Access& x : program.ops[timeline[i].op].accesses) {
        for (const Access& y : program.ops[timeline[j].op].accesses) {
          const bool writes = x.use != Use::read || y.use != Use::read;
          conflict = conflict || (writes && x.buffer == y.buffer &&
                                  x.slot.at(timeline[i].iteration) == y.slot.at(timeline[j].iteration));
        }
      }
      if (conflict && !runtime::happens_before(timeline[i], timeline[j])) return false;
    }
  }
  return true;
}

// Calls change(op, wait) for the waits of a step until it says that it has made the nth change that leaves the two ops
// unordered; changes that leave them ordered are undone.
bool change_wait(Broken& broken, size_t n, const std::function<void(Program&, Op&, OpId)>& change) {
  Program& program = step_of(broken);
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const auto waits = program.ops[id].waits;
    for (OpId wait : waits) {
      change(program, program.ops[id], wait);
      if (!ordered(broken.set, program, id, wait) && n-- == 0) return true;
      program.ops[id].waits = waits;
    }
  }
  return false;
}

bool drop_wait(Broken& broken, size_t n) {
  return change_wait(broken, n, [](Program&, Op& op, OpId wait) { std::erase(op.waits, wait); });
}

// Waits for what ran before the right op on its lane.
bool wait_for_another(Broken& broken, size_t n) {
  return change_wait(broken, n, [](Program& program, Op& op, OpId wait) {
    std::erase(op.waits, wait);
    for (OpId other = wait; other-- > 0;) {
      if (program.ops[other].lane == program.ops[wait].lane) return op.waits.push_back(other);
    }
  });
}

// The compute lane waits for nothing of the nth other lane whose waits order what no other does.
bool forget_lane(Broken& broken, size_t n) {
  Program& program = step_of(broken);
  for (uint8_t lane = 1; lane < broken.set.lanes.size(); ++lane) {
    Program changed = program;
    for (Op& op : changed.ops) {
      if (op.lane == 0) std::erase_if(op.waits, [&](OpId wait) { return program.ops[wait].lane == lane; });
    }
    bool needed = false;
    for (OpId id = 0; id < program.ops.size() && !needed; ++id) {
      for (OpId wait : program.ops[id].waits) {
        const bool removed = program.ops[id].lane == 0 && program.ops[wait].lane == lane;
        needed = needed || (removed && !ordered(broken.set, changed, id, wait));
      }
    }
    if (!needed || n-- > 0) continue;
    program = changed;
    return true;
  }
  return false;
}

// The nth change of an op from its lane to another that `fits`.
bool change_lane(Broken& broken, size_t n,
                 const std::function<bool(runtime::LaneKind from, runtime::LaneKind to)>& fits) {
  Program& program = step_of(broken);
  for (Op& op : program.ops) {
    for (uint8_t lane = 0; lane < broken.set.lanes.size(); ++lane) {
      if (lane == op.lane || !fits(broken.set.lanes[op.lane].kind, broken.set.lanes[lane].kind) || n-- > 0) continue;
      op.lane = lane;
      return true;
    }
  }
  return false;
}

// Buffers that several ops of the step use, in order.
std::vector<BufferId> used(const Broken& broken) {
  std::map<BufferId, std::set<std::string>> users;
  for (const Op& op : broken.set.program("step").ops) {
    for (const Access& access : op.accesses) users[access.buffer].insert(op.name);
  }
  std::vector<BufferId> ids;
  for (const auto& [id, names] : users) {
    if (names.size() > 1) ids.push_back(id);
  }
  return ids;
}

// The nth pair of a buffer that is written while another is between its write and its last read gets its bytes.
bool reuse_early(Broken& broken, size_t n) {
  const Program& program = step_of(broken);
  std::vector<std::pair<OpId, const Access*>> all;
  runtime::for_each_execution(program, 1, [&](OpId id, uint32_t) {
    for (const Access& access : program.ops[id].accesses) all.emplace_back(id, &access);
  });
  const auto ids = used(broken);
  auto reusable = [&](BufferId id) {
    const runtime::Buffer& buffer = broken.set.buffers[id];
    return buffer.life == runtime::Life::transient && buffer.slots == 1 &&
           std::binary_search(ids.begin(), ids.end(), id);
  };
  std::set<std::pair<BufferId, BufferId>> seen;
  for (size_t r = 0; r < all.size(); ++r) {
    const BufferId victim = all[r].second->buffer;
    if (!reusable(victim) || all[r].second->use == Use::write) continue;
    for (size_t w = r; w-- > 0;) {
      const Access& other = *all[w].second;
      if (other.buffer == victim) break;
      if (other.use != Use::write || !reusable(other.buffer)) continue;
      if (!seen.insert({victim, other.buffer}).second || n-- > 0) continue;
      broken.set.buffers[other.buffer].offset = broken.set.buffers[victim].offset;
      broken.set.arena_bytes[0] *= 2;
      return true;
    }
  }
  return false;
}

bool shrink(Broken& broken, size_t n) {
  const auto ids = used(broken);
  if (n >= ids.size()) return false;
  broken.set.buffers[ids[n]].bytes -= 4;
  return true;
}

bool exceed_budget(Broken& broken, size_t n) {
  const auto ids = used(broken);
  if (n >= ids.size()) return false;
  const runtime::Buffer& buffer = broken.set.buffers[ids[n]];
  broken.budgets[static_cast<size_t>(buffer.tier)] = buffer.offset + buffer.extent() - 1;
  return true;
}

// A kept buffer gets the bytes of the next one.
bool move_kept(Broken& broken, size_t n) {
  for (BufferId id : used(broken)) {
    runtime::Buffer& buffer = broken.set.buffers[id];
    if (buffer.life == runtime::Life::transient || n-- > 0) continue;
    const auto ids = used(broken);
    buffer.offset = broken.set.buffers[id == ids.front() ? ids.back() : ids.front()].offset;
    broken.set.arena_bytes[0] += buffer.extent();
    return true;
  }
  return false;
}

// Reads another slot of a buffer that has several.
bool change_slot(Broken& broken, size_t n) {
  for (Op& op : step_of(broken).ops) {
    for (Access& access : op.accesses) {
      if (access.use == Use::write || broken.set.buffers[access.buffer].slots == 1 || n-- > 0) continue;
      access.slot.first = access.slot.first == 0 ? 1 : access.slot.first - 1;
      return true;
    }
  }
  return false;
}

bool leave_slots(Broken& broken, size_t n) {
  const auto ids = used(broken);
  for (Op& op : step_of(broken).ops) {
    for (Access& access : op.accesses) {
      if (!std::binary_search(ids.begin(), ids.end(), access.buffer) || n-- > 0) continue;
      access.slot.first += broken.set.buffers[access.buffer].slots;
      return true;
    }
  }
  return false;
}

// Moves an op in front of its neighbour, which writes what it reads.
bool swap_with_writer(Broken& broken, size_t n) {
  Program& program = step_of(broken);
  for (const runtime::Segment& segment : program.segments) {
    for (OpId id = segment.first + 1; id < segment.first + segment.count; ++id) {
      bool reads = false;
      for (const Access& access : program.ops[id].accesses) {
        for (const Access& other : program.ops[id - 1].accesses) {
          const bool same = access.buffer == other.buffer && access.slot.first == other.slot.first;
          reads = reads || (same && access.use == Use::read && other.use == Use::write);
        }
      }
      if (!reads || n-- > 0) continue;
      swap_ops(program, id - 1, id);
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<FaultKind> memory_faults() {
  using runtime::LaneKind;
  return {
      {"wait removed", true, drop_wait},
      {"wait on the op before the right one", true, wait_for_another},
      {"no wait of the compute lane for another lane", true, forget_lane},
      {"collective on a lane that does not communicate", true,
       [](Broken& b, size_t n) {
         return change_lane(b, n, [](LaneKind from, LaneKind to) { return from == LaneKind::comm && to != from; });
       }},
      {"computation on a lane that communicates", true,
       [](Broken& b, size_t n) {
         return change_lane(b, n, [](LaneKind from, LaneKind to) { return to == LaneKind::comm && to != from; });
       }},
      {"collective on the lane of another group", false,
       [](Broken& b, size_t n) {
         return change_lane(b, n, [](LaneKind from, LaneKind to) { return from == LaneKind::comm && to == from; });
       }},
      {"bytes reused early", true, reuse_early},
      {"buffer shrunk", true, shrink},
      {"budget exceeded", true, exceed_budget},
      {"kept buffer in the bytes of another", true, move_kept},
      {"slot of another microbatch", false, change_slot},
      {"slot that does not exist", true, leave_slots},
      {"op in front of the one that writes what it reads", true, swap_with_writer},
  };
}

}  // namespace zrt::testing

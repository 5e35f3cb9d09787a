#include <algorithm>
#include <map>
#include <optional>

#include "runtime/passes/draft.h"
#include "runtime/timeline.h"

namespace zrt::runtime {
namespace {

bool is_compute(const Op& op) {
  return op.kind == OpKind::forward || op.kind == OpKind::backward || op.kind == OpKind::evaluate ||
         op.kind == OpKind::decode;
}
bool is_block_gather(const Op& op) {
  return op.kind == OpKind::gather && op.accesses.front().role == Role::weight;
}

// Moves the gathers of each block in front of the block before it, so that the lane fetches while that one computes.
void prefetch_one_block(std::vector<Op>& ops) {
  struct Group {
    std::vector<Op> gathers, rest;  // before and including the next compute op
  };
  std::vector<Group> groups(1);
  for (Op& op : ops) {
    const bool last = is_compute(op);
    (is_block_gather(op) ? groups.back().gathers : groups.back().rest).push_back(std::move(op));
    if (last) groups.emplace_back();
  }
  ops.clear();
  auto append = [&](std::vector<Op>& from) {
    for (Op& op : from) ops.push_back(std::move(op));
  };
  append(groups[0].gathers);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (g + 1 < groups.size()) append(groups[g + 1].gathers);
    append(groups[g].rest);
  }
}

// Gathers wait for the compute op `distance` + 1 before theirs, computes for reductions more than `distance` blocks
// old. Wait lists name ops by text position: in a repeated segment the positions behind an op mean the turn before.
void bound_lead(Program& program, uint32_t distance) {
  for (const Segment& segment : program.segments) {
    std::vector<OpId> computes;                    // in text order
    std::vector<std::pair<OpId, size_t>> reduces;  // with the number of computes before it
    const OpId end = segment.first + segment.count;
    for (OpId id = segment.first; id < end; ++id) {
      if (is_compute(program.ops[id])) computes.push_back(id);
      if (program.ops[id].kind == OpKind::reduce_grad) reduces.emplace_back(id, computes.size());
    }
    if (computes.empty()) continue;
    // The compute op `back` before the `position`-th, or one of the turn before.
    auto compute_before = [&](size_t position, size_t back) {
      const size_t n = computes.size();
      return computes[(position + n * (back / n + 1) - back) % n];
    };
    size_t seen = 0;
    for (OpId id = segment.first; id < end; ++id) {
      Op& op = program.ops[id];
      if (is_block_gather(op)) {
        // Its block's compute op is the next one, or with prefetch the one after.
        size_t target = seen;
        while (target < computes.size() && program.ops[computes[target]].block != op.block) ++target;
        op.waits.push_back(compute_before(target, distance + 1));
      }
      if (!is_compute(op)) continue;
      // Reductions issued after compute number p may still run during the next `distance` computes.
      std::optional<OpId> latest;
      for (const auto& [reduce, after] : reduces) {
        if (after + distance <= seen) latest = reduce;
      }
      if (!latest && !reduces.empty() && segment.repeat > 1) latest = reduces.back().first;
      if (latest) op.waits.push_back(*latest);
      ++seen;
    }
  }
}

// The whole state of one unit at a time: a gather waits until the unit before it has been exported.
void bound_export(Program& program) {
  std::optional<OpId> exported;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    Op& op = program.ops[id];
    if (op.kind == OpKind::gather_state && exported) op.waits.push_back(*exported);
    if (op.kind == OpKind::export_state) exported = id;
  }
}

// Adds to each op the waits its reads and writes need beyond what lanes and earlier waits already order.
void order_accesses(Program& program, const ProgramSet& set) {
  struct Slot {
    std::optional<size_t> writer;
    std::vector<size_t> readers;  // since the writer
  };
  std::vector<std::vector<Slot>> slots(set.buffers.size());
  for (size_t b = 0; b < slots.size(); ++b) slots[b].resize(set.buffers[b].slots);
  TimelineBuilder timeline(program.ops.size());
  for_each_execution(program, checked_turns, [&](OpId id, uint32_t iteration) {
    Op& op = program.ops[id];
    for (OpId other : op.waits) timeline.wait_latest(op.lane, other);
    auto need = [&](size_t earlier) {
      if (timeline.known(earlier, op.lane)) return;
      const OpId other = timeline.executions()[earlier].op;
      op.waits.push_back(other);
      timeline.wait_latest(op.lane, other);
    };
    // The latest needed execution first: it often implies the others.
    std::vector<size_t> needed;
    for (const Access& access : op.accesses) {
      const Slot& slot = slots[access.buffer][access.slot.at(iteration) % set.buffers[access.buffer].slots];
      if (slot.writer) needed.push_back(*slot.writer);
      if (access.use != Use::read) needed.insert(needed.end(), slot.readers.begin(), slot.readers.end());
    }
    std::sort(needed.rbegin(), needed.rend());
    for (size_t earlier : needed) need(earlier);
    const size_t self = timeline.append(id, iteration, op.lane);
    for (const Access& access : op.accesses) {
      Slot& slot = slots[access.buffer][access.slot.at(iteration) % set.buffers[access.buffer].slots];
      if (access.use == Use::read) {
        slot.readers.push_back(self);
      } else {
        slot.writer = self;
        slot.readers.clear();
      }
    }
  });
  for (Op& op : program.ops) {
    std::sort(op.waits.begin(), op.waits.end());
    op.waits.erase(std::unique(op.waits.begin(), op.waits.end()), op.waits.end());
    std::erase_if(op.waits, [&](OpId other) { return program.ops[other].lane == op.lane; });
  }
}

}  // namespace

Program add_waits(const Draft& draft, const ProgramSet& set, const Layout& layout) {
  Program program;
  program.phase = draft.phase;
  for (const DraftSegment& segment : draft.segments) {
    std::vector<Op> ops = segment.ops;
    if (ops.empty()) continue;
    if (layout.overlap) prefetch_one_block(ops);
    program.segments.push_back(
        {static_cast<OpId>(program.ops.size()), static_cast<uint32_t>(ops.size()), segment.repeat});
    for (Op& op : ops) program.ops.push_back(std::move(op));
  }
  bound_lead(program, layout.overlap ? 1 : 0);
  bound_export(program);
  order_accesses(program, set);
  return program;
}

}  // namespace zrt::runtime

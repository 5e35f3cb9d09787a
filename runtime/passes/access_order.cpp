#include "runtime/passes/access_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "runtime/program/timeline.h"

namespace zrt::runtime {
namespace {

// The accesses of a segment take the slots of a buffer in turns, all of them by the same step.
struct Ring {
  uint32_t slots, step;
  uint32_t period() const { return slots / std::gcd(slots, step); }  // turns
};

class AccessOrder {
 public:
  AccessOrder(Program& program, const ProgramSet& set)
      : program_(program), set_(set), slots_(set.buffers.size()), timeline_(program.ops.size()) {
    for (size_t b = 0; b < slots_.size(); ++b) slots_[b].resize(set.buffers[b].slots);
  }

  void add() {
    const uint32_t turns = checked_turns(set_, program_);
    for (const Segment& segment : program_.segments) run(segment, std::min(turns, segment.repeat));
    for (Op& op : program_.ops) {
      std::sort(op.waits.begin(), op.waits.end());
      op.waits.erase(std::unique(op.waits.begin(), op.waits.end()), op.waits.end());
      std::erase_if(op.waits, [&](OpId other) { return program_.ops[other].lane == op.lane; });
    }
  }

 private:
  struct Slot {
    std::optional<size_t> writer;
    std::vector<size_t> readers;  // since the writer, the latest of each lane: it runs behind the others there
  };
  using Rings = std::map<BufferId, Ring>;

  void run(const Segment& segment, uint32_t turns) {
    const std::optional<Rings> rings = turns > 1 ? rings_of(segment) : std::nullopt;
    uint32_t round = 1;
    if (rings) {
      for (const auto& [buffer, ring] : *rings) round = std::max(round, ring.period());
    }
    uint32_t since = 0;  // turns that have added no wait
    for (uint32_t turn = 0; turn < turns; ++turn) {
      const size_t before = added_;
      for (OpId id = segment.first; id < segment.first + segment.count; ++id) order(id, turn);
      since = added_ == before ? since + 1 : 0;
      if (!rings || turn < 2 * round || since <= round) continue;
      for (const auto& [buffer, ring] : *rings) turn_on(buffer, ring, turns - turn - 1);
      return;
    }
  }

  // None where accesses go through slots in another way, or leave slots out that the segment found something in.
  std::optional<Rings> rings_of(const Segment& segment) const {
    std::map<BufferId, std::vector<uint32_t>> firsts;
    Rings rings;
    for (OpId id = segment.first; id < segment.first + segment.count; ++id) {
      for (const Access& access : program_.ops[id].accesses) {
        const Buffer& buffer = set_.buffers[access.buffer];
        if (!buffer.slot_table.empty() && access.slot.step != 0) return std::nullopt;
        const Ring ring{buffer.slots, buffer.slot_table.empty() ? access.slot.step % buffer.slots : 0};
        const auto [known, added] = rings.try_emplace(access.buffer, ring);
        if (known->second.step != ring.step) return std::nullopt;
        firsts[access.buffer].push_back(access.slot.first % std::gcd(ring.slots, ring.step));
      }
    }
    std::erase_if(rings, [](const auto& one) { return one.second.step == 0; });
    for (const auto& [buffer, ring] : rings) {
      std::vector<uint32_t>& seen = firsts[buffer];
      std::sort(seen.begin(), seen.end());
      seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
      if (seen.size() < std::gcd(ring.slots, ring.step)) return std::nullopt;
    }
    return rings;
  }

  // Leaves the slots as so many further turns would: each has what now the slot has that lies as many steps before it.
  void turn_on(BufferId buffer, const Ring& ring, uint32_t turns) {
    std::vector<Slot>& slots = slots_[buffer];
    const auto by = static_cast<uint32_t>(uint64_t{turns} * ring.step % ring.slots);
    std::rotate(slots.begin(), slots.end() - by, slots.end());
  }

  void order(OpId id, uint32_t turn) {
    Op& op = program_.ops[id];
    for (OpId other : op.waits) timeline_.wait_latest(op.lane, other);
    // The latest needed execution first: it often implies the others.
    needed_.clear();
    for (const Access& access : op.accesses) {
      const Slot& slot = slots_[access.buffer][access.slot_of(set_.buffers[access.buffer], turn)];
      if (slot.writer) needed_.push_back(*slot.writer);
      if (access.use != Use::read) needed_.insert(needed_.end(), slot.readers.begin(), slot.readers.end());
    }
    std::sort(needed_.rbegin(), needed_.rend());
    for (const size_t earlier : needed_) need(op, earlier);
    const size_t self = timeline_.append(id, turn, op.lane);
    for (const Access& access : op.accesses) {
      Slot& slot = slots_[access.buffer][access.slot_of(set_.buffers[access.buffer], turn)];
      if (access.use == Use::read) {
        std::erase_if(slot.readers, [&](size_t earlier) { return timeline_.executions()[earlier].lane == op.lane; });
        slot.readers.push_back(self);
      } else {
        slot.writer = self;
        slot.readers.clear();
      }
    }
  }

  void need(Op& op, size_t earlier) {
    if (timeline_.known(earlier, op.lane)) return;
    const OpId other = timeline_.executions()[earlier].op;
    op.waits.push_back(other);
    timeline_.wait_latest(op.lane, other);
    ++added_;
  }

  Program& program_;
  const ProgramSet& set_;
  std::vector<std::vector<Slot>> slots_;  // by buffer
  TimelineBuilder timeline_;
  std::vector<size_t> needed_;
  size_t added_ = 0;
};

}  // namespace

void order_accesses(Program& program, const ProgramSet& set) {
  AccessOrder(program, set).add();
}

}  // namespace zrt::runtime

#include "runtime/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "runtime/timeline.h"

namespace zrt::runtime {
namespace {

using core::ProgramError;

class AccessChecker {
 public:
  AccessChecker(const ProgramSet& set, const Program& program)
      : set_(set), program_(program), timeline_(make_timeline(program)), state_(set.buffers.size()) {
    const bool makes_state = program.phase == "init" || program.phase == "load";
    for (size_t b = 0; b < set.buffers.size(); ++b) {
      state_[b].resize(set.buffers[b].slots);
      for (SlotState& slot : state_[b]) slot.valid = set.buffers[b].life == Life::carried && !makes_state;
    }
    find_overlaps();
  }

  void check() {
    for (size_t position = 0; position < timeline_.size(); ++position) {
      const Execution& e = timeline_[position];
      for (const Access& access : program_.ops[e.op].accesses) before_access(position, access);
      for (const Access& access : program_.ops[e.op].accesses) record_access(position, access);
    }
  }

 private:
  struct SlotState {
    bool valid = false;        // holds what its last writer wrote
    std::vector<size_t> uses;  // executions since (and with) the last write
  };
  // All buffers whose address range, red zones included, meets buffer b's; b itself first.
  void find_overlaps() {
    overlaps_.resize(set_.buffers.size());
    std::vector<BufferId> order;
    for (BufferId b = 0; b < set_.buffers.size(); ++b) order.push_back(b), overlaps_[b].push_back(b);
    std::sort(order.begin(), order.end(),
              [&](BufferId a, BufferId b) { return set_.buffers[a].offset < set_.buffers[b].offset; });
    for (size_t i = 0; i < order.size(); ++i) {
      const Buffer& a = set_.buffers[order[i]];
      const uint64_t end = a.offset + a.slots * a.stride();
      for (size_t j = i + 1; j < order.size() && set_.buffers[order[j]].offset < end; ++j) {
        overlaps_[order[i]].push_back(order[j]);
        overlaps_[order[j]].push_back(order[i]);
      }
    }
  }

  std::string place(size_t position) const {
    const Execution& e = timeline_[position];
    return fmt::format("'{}' (turn {})", program_.ops[e.op].name, e.iteration);
  }

  [[noreturn]] void fail(size_t position, const Buffer& buffer, const std::string& what) const {
    throw ProgramError(fmt::format("program '{}' is not safe: {} uses buffer '{}' but {}", program_.phase,
                                   place(position), buffer.name, what));
  }

  void before_access(size_t position, const Access& access) {
    const Buffer& buffer = set_.buffers[access.buffer];
    const uint32_t slot_number = access.slot.at(timeline_[position].iteration);
    if (slot_number >= buffer.slots) {
      fail(position, buffer, fmt::format("slot {} of {} does not exist", slot_number, buffer.slots));
    }
    const SlotState& slot = state_[access.buffer][slot_number];
    if (access.use != Use::write && !slot.valid) {
      fail(position, buffer, "reads it before it is written, or after another buffer took its bytes");
    }
    for (size_t earlier : slot.uses) {
      const bool conflict = access.use != Use::read || writes(earlier, access.buffer);
      if (conflict) require_order(earlier, position, buffer, buffer);
    }
    if (access.use == Use::read) return;
    for (BufferId other : overlaps_[access.buffer]) {
      if (other == access.buffer) continue;
      for (SlotState& theirs : state_[other]) {
        for (size_t earlier : theirs.uses) require_order(earlier, position, buffer, set_.buffers[other]);
      }
    }
  }

  void record_access(size_t position, const Access& access) {
    SlotState& slot = state_[access.buffer][access.slot.at(timeline_[position].iteration)];
    if (access.use != Use::read) {
      slot.valid = true;
      slot.uses.clear();
      for (BufferId other : overlaps_[access.buffer]) {
        if (other == access.buffer) continue;
        for (SlotState& theirs : state_[other]) theirs = {};
      }
    }
    slot.uses.push_back(position);
  }

  bool writes(size_t position, BufferId id) const {
    const auto& accesses = program_.ops[timeline_[position].op].accesses;
    return std::any_of(accesses.begin(), accesses.end(),
                       [&](const Access& a) { return a.buffer == id && a.use != Use::read; });
  }

  void require_order(size_t earlier, size_t position, const Buffer& buffer, const Buffer& other) const {
    if (earlier == position || happens_before(timeline_[earlier], timeline_[position])) return;
    fail(position, buffer,
         fmt::format("{} may still be using {} on another lane; a wait is missing", place(earlier),
                     &buffer == &other ? "it" : fmt::format("buffer '{}' in the same bytes", other.name)));
  }

  const ProgramSet& set_;
  const Program& program_;
  std::vector<Execution> timeline_;
  std::vector<std::vector<SlotState>> state_;  // [buffer][slot]
  std::vector<std::vector<BufferId>> overlaps_;
};

// Every (block, microbatch) once forward and once backward; every unit reduced once per window.
void check_counts(const Program& program, const Layout& layout) {
  std::map<std::pair<uint32_t, uint32_t>, std::pair<int, int>> runs;  // (block, microbatch) → forward, backward
  std::map<uint32_t, uint32_t> reductions;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t iteration) {
    const Op& op = program.ops[id];
    auto& run = runs[{op.block, op.microbatch.at(iteration)}];
    if (op.kind == OpKind::forward) ++run.first;
    if (op.kind == OpKind::backward) ++run.second;
    if (op.kind == OpKind::reduce_grad) {
      for (uint32_t u : op.units) ++reductions[u];
    }
  });
  for (uint32_t b = 0; b < layout.model->blocks.size(); ++b) {
    for (uint32_t m = 0; m < layout.microbatches; ++m) {
      const auto [forward, backward] = runs[{b, m}];
      if (forward == 1 && backward == 1) continue;
      throw ProgramError(
          fmt::format("block '{}' runs {} times forward and {} times backward for microbatch {}; each "
                      "must run once",
                      layout.model->blocks[b]->name(), forward, backward, m));
    }
  }
  for (uint32_t u = 0; u < layout.units.units.size(); ++u) {
    const uint32_t windows = layout.microbatches / layout.reduce_every;
    if (reductions[u] == windows) continue;
    throw ProgramError(fmt::format("the gradient of '{}' is reduced {} times in a step of {} windows",
                                   layout.units.units[u].name, reductions[u], windows));
  }
}

void check_waits(const ProgramSet& set, const Program& program) {
  for (const Op& op : program.ops) {
    if (op.lane >= set.lanes.size())
      throw ProgramError(fmt::format("op '{}' runs on lane {} of {}", op.name, op.lane, set.lanes.size()));
    for (OpId other : op.waits) {
      if (other < program.ops.size()) continue;
      throw ProgramError(fmt::format("op '{}' waits for op {} of {}", op.name, other, program.ops.size()));
    }
  }
  for (const Buffer& buffer : set.buffers) {
    if (buffer.offset + buffer.extent() <= set.device_bytes) continue;
    throw ProgramError(fmt::format("buffer '{}' ends at byte {}, behind the arena of {}", buffer.name,
                                   buffer.offset + buffer.extent(), set.device_bytes));
  }
}

std::vector<std::string> collectives(const ProgramSet& set, const Program& program, uint8_t lane) {
  std::vector<std::string> calls;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t) {
    const Op& op = program.ops[id];
    if (op.lane != lane) return;
    std::string call = fmt::format("{} [{}]", op.name, op_kind_name(op.kind));
    for (const Access& access : op.accesses) call += fmt::format(" {}", set.buffers[access.buffer].bytes);
    calls.push_back(std::move(call));
  });
  return calls;
}

}  // namespace

void verify(const ProgramSet& set, const Layout& layout) {
  for (const Program& program : set.programs) {
    check_waits(set, program);
    AccessChecker(set, program).check();
    if (program.phase == "step") check_counts(program, layout);
  }
}

void verify_collectives(const std::vector<const ProgramSet*>& ranks) {
  const ProgramSet& first = *ranks.front();
  for (size_t r = 1; r < ranks.size(); ++r) {
    for (size_t p = 0; p < first.programs.size(); ++p) {
      for (uint8_t lane = 0; lane < first.lanes.size(); ++lane) {
        if (first.lanes[lane].kind != LaneKind::comm) continue;
        const auto ours = collectives(first, first.programs[p], lane);
        const auto theirs = collectives(*ranks[r], ranks[r]->programs.at(p), lane);
        const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
        if (a == ours.end() && b == theirs.end()) continue;
        throw ProgramError(
            fmt::format("ranks 0 and {} would wait for each other on lane {} of phase '{}': collective {} is '{}' on "
                        "one and '{}' on "
                        "the other",
                        r, first.lanes[lane].name(), first.programs[p].phase, a - ours.begin(),
                        a == ours.end() ? "none" : *a, b == theirs.end() ? "none" : *b));
      }
    }
  }
}

}  // namespace zrt::runtime

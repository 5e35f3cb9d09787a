#include "runtime/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

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
      check_within(position);
      for (const Access& access : program_.ops[e.op].accesses) record_access(position, access);
    }
    check_state_made();
  }

 private:
  struct SlotState {
    bool valid = false;          // holds what its last writer wrote
    std::optional<size_t> made;  // execution that wrote all of it last
    std::vector<size_t> uses;    // executions since (and with) the last write
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
        const Buffer& b = set_.buffers[order[j]];
        if (a.tier != b.tier) continue;
        if (a.life != Life::transient || b.life != Life::transient) {
          throw ProgramError(fmt::format("buffers '{}' and '{}' share bytes, but one of them is kept between programs",
                                         a.name, b.name));
        }
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
    const SlotState& slot = state_[access.buffer][access.slot.at(timeline_[position].iteration)];
    if (access.use != Use::write && !slot.valid) {
      fail(position, buffer, "reads it before it is written, or after another buffer took its bytes");
    }
    check_microbatch(position, access, slot);
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

  // What one op writes must not share bytes with anything else it uses.
  void check_within(size_t position) const {
    const auto& accesses = program_.ops[timeline_[position].op].accesses;
    for (const Access& access : accesses) {
      if (access.use == Use::read || overlaps_[access.buffer].size() == 1) continue;
      for (const Access& other : accesses) {
        if (other.buffer == access.buffer) continue;
        const auto& shared = overlaps_[access.buffer];
        if (std::find(shared.begin(), shared.end(), other.buffer) == shared.end()) continue;
        fail(position, set_.buffers[access.buffer],
             fmt::format("it also uses buffer '{}' in the same bytes", set_.buffers[other.buffer].name));
      }
    }
  }

  // Activations and tokens must be of the microbatch that the op works on, not left over from another.
  void check_microbatch(size_t position, const Access& access, const SlotState& slot) const {
    const bool of_microbatch = access.role == Role::tokens || access.role == Role::targets ||
                               access.role == Role::input || access.role == Role::d_output ||
                               access.role == Role::saved;
    if (!of_microbatch || access.use == Use::write || !slot.made) return;
    auto microbatch = [&](size_t at) { return program_.ops[timeline_[at].op].microbatch.at(timeline_[at].iteration); };
    if (microbatch(*slot.made) == microbatch(position)) return;
    fail(position, set_.buffers[access.buffer],
         fmt::format("it works on microbatch {} and {} wrote microbatch {}", microbatch(position), place(*slot.made),
                     microbatch(*slot.made)));
  }

  // After init and load every state holds values; caches are filled by their first use.
  void check_state_made() const {
    for (size_t b = 0; b < set_.buffers.size(); ++b) {
      const Buffer& buffer = set_.buffers[b];
      if (buffer.life != Life::carried || buffer.category == core::Category::activations || state_[b][0].valid)
        continue;
      throw ProgramError(
          fmt::format("program '{}' leaves the state '{}' without a value", program_.phase, buffer.name));
    }
  }

  void record_access(size_t position, const Access& access) {
    SlotState& slot = state_[access.buffer][access.slot.at(timeline_[position].iteration)];
    if (access.use != Use::read) {
      slot.valid = true;
      slot.uses.clear();
      if (access.use == Use::write) slot.made = position;
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

// What the other checks take for granted: lanes, ops, buffers and slots exist.
void check_references(const ProgramSet& set, const Program& program) {
  for (const Op& op : program.ops) {
    if (op.lane >= set.lanes.size())
      throw ProgramError(fmt::format("op '{}' runs on lane {} of {}", op.name, op.lane, set.lanes.size()));
    for (OpId other : op.waits) {
      if (other < program.ops.size()) continue;
      throw ProgramError(fmt::format("op '{}' waits for op {} of {}", op.name, other, program.ops.size()));
    }
    for (const Access& access : op.accesses) {
      if (access.buffer < set.buffers.size()) continue;
      throw ProgramError(fmt::format("op '{}' uses buffer {} of {}", op.name, access.buffer, set.buffers.size()));
    }
  }
  for (const Segment& segment : program.segments) {
    for (OpId id = segment.first; id < segment.first + segment.count; ++id) {
      for (const Access& access : program.ops[id].accesses) {
        const Buffer& buffer = set.buffers[access.buffer];
        // The timeline looks at the first turns only.
        const uint32_t last = access.slot.at(segment.repeat - 1);
        if (last < buffer.slots) continue;
        throw ProgramError(
            fmt::format("program '{}' is not safe: '{}' uses buffer '{}' but slot {} of {} does not exist",
                        program.phase, program.ops[id].name, buffer.name, last, buffer.slots));
      }
    }
  }
  for (const Buffer& buffer : set.buffers) {
    if (buffer.offset + buffer.extent() <= set.bytes(buffer.tier)) continue;
    throw ProgramError(fmt::format("buffer '{}' ends at byte {}, behind the arena of {}", buffer.name,
                                   buffer.offset + buffer.extent(), set.bytes(buffer.tier)));
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
    check_references(set, program);
    AccessChecker(set, program).check();
    if (program.phase == "step") verify_step(program, layout);
  }
}

void verify_collectives(const std::vector<const ProgramSet*>& ranks) {
  const ProgramSet& first = *ranks.front();
  for (size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r]->programs.size() != first.programs.size() || ranks[r]->lanes.size() != first.lanes.size()) {
      throw ProgramError(fmt::format("ranks 0 and {} have {} and {} programs on {} and {} lanes; both must be equal", r,
                                     first.programs.size(), ranks[r]->programs.size(), first.lanes.size(),
                                     ranks[r]->lanes.size()));
    }
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

// Ranks whose programs differ: do their collectives match, and can they wait for each other for ever?
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/error.h"
#include "runtime/ops/spec.h"
#include "runtime/program/timeline.h"
#include "runtime/verify/context.h"
#include "runtime/verify/verifier.h"

namespace zrt::runtime {
namespace {

using core::ProgramError;
using verification::Execution;
using verification::FaultPlace;

// A program as a GPU sees it that does one op after the other, and as its lanes do.
struct Queue {
  std::vector<Execution> all;
  std::array<std::vector<Execution>, max_lanes> lanes;
  explicit Queue(const Program& program) {
    for_each_execution(program, ~0u, [&](OpId id, uint32_t turn) {
      all.push_back({id, turn});
      lanes[program.ops[id].lane].push_back({id, turn});
    });
  }
};

int number_of(const std::vector<int>& numbers, size_t rank) {  // in the run
  return numbers.empty() ? static_cast<int>(rank) : numbers[rank];
}

// The programs of one phase: all ranks', or one for those of each stage. Ranks that share a set share its
// queues.
class PhaseChecker {
 public:
  PhaseChecker(const std::vector<const ProgramSet*>& ranks, const std::vector<int>& numbers, size_t phase)
      : ranks_(ranks), numbers_(numbers), phase_(phase), at_(ranks.size()) {
    for (const ProgramSet* set : ranks) {
      if (!queues_.contains(set)) queues_.emplace(set, set->programs[phase]);
    }
    for (const ProgramSet* set : ranks) of_.push_back(&queues_.at(set));
    for (size_t r = 0; r < ranks.size(); ++r) {
      members_.emplace_back();
      for (uint8_t lane = 0; lane < ranks[0]->lanes.size(); ++lane) members_[r].push_back(members(r, lane));
    }
  }

  void check() {
    for (uint8_t lane = 0; lane < ranks_[0]->lanes.size(); ++lane) {
      if (!communicates(lane)) continue;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        const size_t first = members_[r][lane].front();
        if (ranks_[r] != ranks_[first]) check_order(first, r, lane);
      }
    }
    run();
  }

 private:
  const Program& program(size_t rank) const { return ranks_[rank]->programs[phase_]; }
  // The same lanes communicate on all ranks; others may be there on some alone.
  bool communicates(uint8_t lane) const {
    return lane < ranks_[0]->lanes.size() && ranks_[0]->lanes[lane].kind == LaneKind::comm;
  }
  int number(size_t rank) const { return number_of(numbers_, rank); }

  std::vector<size_t> members(size_t rank, uint8_t lane) const {
    const ProgramSet& set = *ranks_[0];
    const auto group = std::find_if(set.groups.begin(), set.groups.end(),
                                    [&](const Group& known) { return known.name == set.lanes[lane].group; });
    std::vector<size_t> all;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (group == set.groups.end() || group->ranks.together(number(r), number(rank))) all.push_back(r);
    }
    return all;
  }

  // The nth collective on a lane, or the end of the program.
  FaultPlace place(size_t rank, uint8_t lane, size_t n) const {
    const auto& queue = of_[rank]->lanes[lane];
    return n < queue.size() ? FaultPlace{&program(rank), queue[n]} : FaultPlace{&program(rank)};
  }
  // Says what such a place is about, on one rank. An op may be missing there: those in front and behind share its lane.
  std::string context(size_t rank, uint8_t lane, const FaultPlace& at) const {
    std::string operand = "none, its calls on this lane have ended", group;
    if (at.at.known()) {
      const Op& op = at.program->ops[at.at.op];
      if (!op.accesses.empty()) operand = fmt::format("'{}'", ranks_[rank]->buffers[op.accesses[0].buffer].name);
      if (communicates(op.lane)) group = fmt::format(", among the ranks of '{}'", ranks_[rank]->lanes[op.lane].group);
    }
    return fmt::format("Rank {}: operand: {}{}. Neighbours: {}.", number(rank), operand, group,
                       verification::neighbours(*ranks_[rank], at, lane));
  }

  // The nth collective on a lane; "none" behind the last.
  std::string call(size_t rank, uint8_t lane, size_t n) const {
    const auto& queue = of_[rank]->lanes[lane];
    if (n >= queue.size()) return "none";
    const Op& op = program(rank).ops[queue[n].op];
    std::string text = fmt::format("{} [{}]", op.name, op_kind_name(op.kind));
    if (spec(op.kind).of_microbatch) text += fmt::format(" of microbatch {}", op.microbatch.at(queue[n].turn));
    for (const Access& access : op.accesses) {
      text += fmt::format(" {}", ranks_[rank]->buffers[access.buffer].bytes);
      if (const uint32_t slot = access.slot_of(ranks_[rank]->buffers[access.buffer], queue[n].turn); slot > 0)
        text += fmt::format(" in slot {}", slot);
    }
    for (uint8_t adds : op.accumulate) text += adds ? " added" : " defined";
    return text;
  }

  // True where one side of a boundary between stages sends what the other receives.
  bool paired(size_t a, const Execution& x, size_t b, const Execution& y) const {
    const Op &one = program(a).ops[x.op], &other = program(b).ops[y.op];
    return one.kind != other.kind && (other.kind == OpKind::send || other.kind == OpKind::receive) &&
           one.microbatch.at(x.turn) == other.microbatch.at(y.turn) &&
           ranks_[a]->buffers[one.accesses[0].buffer].bytes == ranks_[b]->buffers[other.accesses[0].buffer].bytes;
  }

  // Units have other numbers in other stages; the names of ops say of which they are.
  bool between_stages(size_t rank, const Op& op) const { return ranks_[rank]->group(op).axes == Axis::pipeline; }

  bool same(size_t a, const Execution& x, size_t b, const Execution& y) const {
    const Op &one = program(a).ops[x.op], &other = program(b).ops[y.op];
    if (one.kind == OpKind::send || one.kind == OpKind::receive) return paired(a, x, b, y);
    return one.kind == other.kind && one.name == other.name && (one.units == other.units || between_stages(a, one)) &&
           one.accumulate == other.accumulate &&
           std::equal(one.accesses.begin(), one.accesses.end(), other.accesses.begin(), other.accesses.end(),
                      [&](const Access& p, const Access& q) {
                        return p.role == q.role &&
                               p.slot_of(ranks_[a]->buffers[p.buffer], x.turn) ==
                                   q.slot_of(ranks_[b]->buffers[q.buffer], y.turn) &&
                               ranks_[a]->buffers[p.buffer].bytes == ranks_[b]->buffers[q.buffer].bytes;
                      });
  }

  void check_order(size_t first, size_t rank, uint8_t lane) const {
    const auto &ours = of_[first]->lanes[lane], &theirs = of_[rank]->lanes[lane];
    const size_t count = std::max(ours.size(), theirs.size());
    for (size_t n = 0; n < count; ++n) {
      if (n < ours.size() && n < theirs.size() && same(first, ours[n], rank, theirs[n])) continue;
      throw ProgramError(fmt::format(
          "ranks {} and {} would wait for each other on lane {} of phase '{}': collective {} is '{}' on one and '{}' "
          "on the other\n{}\n{}",
          number(first), number(rank), ranks_[0]->lanes[lane].name(), program(0).phase, n, call(first, lane, n),
          call(rank, lane, n), context(first, lane, place(first, lane, n)), context(rank, lane, place(rank, lane, n))));
    }
  }

  const Op* head(size_t rank) const {
    return at_[rank] < of_[rank]->all.size() ? &program(rank).ops[of_[rank]->all[at_[rank]].op] : nullptr;
  }

  // Returns the rank that keeps this one from its next op: it has not come to the same collective.
  std::optional<size_t> obstacle(size_t rank) const {
    const uint8_t lane = head(rank)->lane;
    if (!communicates(lane)) return std::nullopt;
    for (size_t member : members_[rank][lane]) {
      const Op* theirs = head(member);
      if (!theirs || theirs->lane != lane) return member;
    }
    return std::nullopt;
  }

  // Lets every rank go as far as it can, an op at a time in the order of its program. No choice is ever made, so a
  // standstill here is one on every GPU that does so; waits point back in program order, so lanes of their own go on
  // where this does.
  void run() {
    std::vector<size_t> ready;
    for (size_t r = 0; r < ranks_.size(); ++r) ready.push_back(r);
    while (!ready.empty()) {
      const size_t rank = ready.back();
      ready.pop_back();
      while (head(rank) && !obstacle(rank)) {
        const uint8_t lane = head(rank)->lane;
        if (!communicates(lane)) {
          ++at_[rank];
          continue;
        }
        for (size_t member : members_[rank][lane]) {
          ++at_[member];
          if (member != rank) ready.push_back(member);
        }
      }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (head(r)) fail(r);
    }
  }

  std::string text(size_t rank) const {
    const Op* op = head(rank);
    if (!op) return fmt::format("rank {}, which has come to its end,", number(rank));
    const Execution at = of_[rank]->all[at_[rank]];
    const std::string of =
        spec(op->kind).of_microbatch ? fmt::format(" of microbatch {}", op->microbatch.at(at.turn)) : "";
    return fmt::format("rank {} '{}'{} on lane {}", number(rank), op->name, of, ranks_[rank]->lanes[op->lane].name());
  }

  // Follows who waits for whom until it comes round.
  [[noreturn]] void fail(size_t at) const {
    std::vector<size_t> path;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      if (!head(at)) break;
      at = *obstacle(at);
    }
    std::string circle;
    std::string places;
    for (auto it = std::find(path.begin(), path.end(), at); it != path.end(); ++it) {
      circle += text(*it) + " waits for ";
      const bool calls = head(*it) != nullptr;
      const FaultPlace stuck = calls ? FaultPlace{&program(*it), of_[*it]->all[at_[*it]]} : FaultPlace{&program(*it)};
      const uint8_t last = program(*it).ops.empty() ? 0 : program(*it).ops.back().lane;
      places += '\n' + context(*it, calls ? head(*it)->lane : last, stuck);
    }
    throw ProgramError(
        fmt::format("phase '{}' would stand still for ever: {}{}{}", program(0).phase, circle, text(at), places));
  }

  const std::vector<const ProgramSet*>& ranks_;
  const std::vector<int>& numbers_;
  const size_t phase_;
  std::map<const ProgramSet*, Queue> queues_;
  std::vector<const Queue*> of_;                           // by rank
  std::vector<std::vector<std::vector<size_t>>> members_;  // by rank and lane: those who call together there
  std::vector<size_t> at_;                                 // by rank: ops done
};

}  // namespace

void verify_collectives(const std::vector<const ProgramSet*>& ranks, const std::vector<int>& numbers) {
  const ProgramSet& first = *ranks.front();
  // Equal programs lead into no circle: waits point back in program order, and so do collectives.
  if (std::all_of(ranks.begin(), ranks.end(), [&](const ProgramSet* set) { return set == &first; })) return;
  const auto comm = [](const ProgramSet& set, size_t lane) {
    return lane < set.lanes.size() && set.lanes[lane].kind == LaneKind::comm ? set.lanes[lane].group : "";
  };
  // A stage that has nothing to refresh has no program for it; others do it among themselves.
  const auto common = [](const ProgramSet& set) {
    return set.programs.size() - (!set.programs.empty() && set.programs.back().phase == "refresh");
  };
  bool all_equal = true;
  for (size_t r = 1; r < ranks.size(); ++r) {
    all_equal = all_equal && ranks[r]->programs.size() == first.programs.size();
    bool lanes_match = true;
    for (size_t l = 0; l < std::max(first.lanes.size(), ranks[r]->lanes.size()); ++l) {
      lanes_match = lanes_match && comm(first, l) == comm(*ranks[r], l);
    }
    if (common(*ranks[r]) == common(first) && lanes_match) continue;
    throw ProgramError(fmt::format(
        "ranks 0 and {} have {} and {} programs on {} and {} lanes; programs and lanes that communicate must "
        "be the same ones",
        number_of(numbers, r), first.programs.size(), ranks[r]->programs.size(), first.lanes.size(),
        ranks[r]->lanes.size()));
  }
  const size_t checked = all_equal ? first.programs.size() : common(first);
  for (size_t p = 0; p < checked; ++p) PhaseChecker(ranks, numbers, p).check();
}

}  // namespace zrt::runtime

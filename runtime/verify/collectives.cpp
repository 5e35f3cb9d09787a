// Ranks whose programs differ: do their collectives match, and can they wait for each other for ever?
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/error.h"
#include "runtime/ops/spec.h"
#include "runtime/verify/lane_queues.h"
#include "runtime/verify/verifier.h"

namespace zrt::runtime {
namespace {

using core::ProgramError;
using verification::LaneQueues;
using verification::Place;
using verification::Queued;

// All ranks' programs of one phase, or of one for each run of ranks that are alike. Ranks that share a set share its
// queues.
class PhaseChecker {
 public:
  PhaseChecker(const std::vector<const ProgramSet*>& ranks, int alike, size_t phase)
      : ranks_(ranks), alike_(alike), phase_(phase), at_(ranks.size()) {
    for (const ProgramSet* set : ranks) {
      if (!queues_.contains(set)) queues_.emplace(set, verification::make_queues(set->programs[phase]));
    }
    for (const ProgramSet* set : ranks) of_.push_back(&queues_.at(set));
  }

  void check() {
    for (uint8_t lane = 0; lane < ranks_[0]->lanes.size(); ++lane) {
      if (!communicates(lane)) continue;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        const size_t first = members(r, lane).front();
        if (ranks_[r] != ranks_[first]) check_order(first, r, lane);
      }
    }
    run();
  }

 private:
  using Head = std::pair<size_t, uint8_t>;  // a rank and one of its lanes

  const Program& program(size_t rank) const { return ranks_[rank]->programs[phase_]; }
  // Of all ranks the same ones do; others may be there on some alone.
  bool communicates(uint8_t lane) const {
    return lane < ranks_[0]->lanes.size() && ranks_[0]->lanes[lane].kind == LaneKind::comm;
  }
  int number(size_t rank) const { return static_cast<int>(rank) * alike_; }  // in the run

  std::vector<size_t> members(size_t rank, uint8_t lane) const {
    const ProgramSet& set = *ranks_[0];
    const auto group = std::find_if(set.groups.begin(), set.groups.end(),
                                    [&](const Group& known) { return known.name == set.lanes[lane].group; });
    std::vector<size_t> all;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (group == set.groups.end() || group->together(number(r), number(rank))) all.push_back(r);
    }
    return all;
  }

  // The nth collective on a lane; "none" behind the last.
  std::string call(size_t rank, uint8_t lane, size_t n) const {
    const auto& queue = of_[rank]->lanes[lane];
    if (n >= queue.size()) return "none";
    const Op& op = program(rank).ops[queue[n].place.op];
    std::string text = fmt::format("{} [{}]", op.name, op_kind_name(op.kind));
    if (spec(op.kind).of_microbatch) text += fmt::format(" of microbatch {}", op.microbatch.at(queue[n].place.turn));
    for (const Access& access : op.accesses) {
      text += fmt::format(" {}", ranks_[rank]->buffers[access.buffer].bytes);
      if (const uint32_t slot = access.slot_of(ranks_[rank]->buffers[access.buffer], queue[n].place.turn); slot > 0)
        text += fmt::format(" in slot {}", slot);
    }
    for (uint8_t adds : op.accumulate) text += adds ? " added" : " defined";
    return text;
  }

  // What one side of a boundary between stages sends and the other receives.
  bool paired(size_t a, const Queued& x, size_t b, const Queued& y) const {
    const Op &one = program(a).ops[x.place.op], &other = program(b).ops[y.place.op];
    return one.kind != other.kind && (other.kind == OpKind::send || other.kind == OpKind::receive) &&
           one.microbatch.at(x.place.turn) == other.microbatch.at(y.place.turn) &&
           ranks_[a]->buffers[one.accesses[0].buffer].bytes == ranks_[b]->buffers[other.accesses[0].buffer].bytes;
  }

  // Units have other numbers in other stages; the names of ops say of which they are.
  bool between_stages(size_t rank, const Op& op) const { return ranks_[rank]->group(op).kind == GroupKind::copies; }

  bool same(size_t a, const Queued& x, size_t b, const Queued& y) const {
    const Op &one = program(a).ops[x.place.op], &other = program(b).ops[y.place.op];
    if (one.kind == OpKind::send || one.kind == OpKind::receive) return paired(a, x, b, y);
    return one.kind == other.kind && one.name == other.name && (one.units == other.units || between_stages(a, one)) &&
           one.accumulate == other.accumulate &&
           std::equal(one.accesses.begin(), one.accesses.end(), other.accesses.begin(), other.accesses.end(),
                      [&](const Access& p, const Access& q) {
                        return p.role == q.role &&
                               p.slot_of(ranks_[a]->buffers[p.buffer], x.place.turn) ==
                                   q.slot_of(ranks_[b]->buffers[q.buffer], y.place.turn) &&
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
          "on "
          "the other",
          number(first), number(rank), ranks_[0]->lanes[lane].name(), program(0).phase, n, call(first, lane, n),
          call(rank, lane, n)));
    }
  }

  const Queued* head(Head at) const {
    const auto& queue = of_[at.first]->lanes[at.second];
    const uint32_t done = at_[at.first][at.second];
    return done < queue.size() ? &queue[done] : nullptr;
  }

  // What keeps a lane from going on: an op of the same rank, or a rank that has not come to the collective.
  std::optional<Head> obstacle(Head at) const {
    const Queued& next = *head(at);
    for (const verification::Need& need : of_[at.first]->needs_of(next)) {
      if (at_[at.first][need.lane] < need.finished) return Head{at.first, need.lane};
    }
    if (!communicates(at.second)) return std::nullopt;
    for (size_t member : members(at.first, at.second)) {
      if (at_[member][at.second] < at_[at.first][at.second]) return Head{member, at.second};
      const Head theirs{member, at.second};
      if (member != at.first && waits_locally(theirs)) return theirs;
    }
    return std::nullopt;
  }
  bool waits_locally(Head at) const {
    for (const verification::Need& need : of_[at.first]->needs_of(*head(at))) {
      if (at_[at.first][need.lane] < need.finished) return true;
    }
    return false;
  }

  // Lets every lane go as far as it can. No choice is ever made, so a standstill here is one on every interleaving.
  void run() {
    std::vector<Head> ready;
    auto wake = [&](size_t rank) {
      for (uint8_t lane = 0; lane < ranks_[rank]->lanes.size(); ++lane) ready.emplace_back(rank, lane);
    };
    for (size_t r = 0; r < ranks_.size(); ++r) wake(r);
    while (!ready.empty()) {
      const Head at = ready.back();
      ready.pop_back();
      bool moved = false;
      while (head(at) && !obstacle(at)) {
        if (!communicates(at.second)) {
          ++at_[at.first][at.second], moved = true;
          continue;
        }
        for (size_t member : members(at.first, at.second)) {
          ++at_[member][at.second];
          if (member != at.first) wake(member);
        }
        moved = true;
      }
      if (moved) wake(at.first);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      for (uint8_t lane = 0; lane < ranks_[r]->lanes.size(); ++lane) {
        if (head({r, lane})) fail({r, lane});
      }
    }
  }

  std::string text(Head at) const {
    return fmt::format("rank {} '{}' on lane {}", number(at.first), program(at.first).ops[head(at)->place.op].name,
                       ranks_[at.first]->lanes[at.second].name());
  }

  // Follows who waits for whom until it comes round.
  [[noreturn]] void fail(Head at) const {
    std::vector<Head> path;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      at = *obstacle(at);
    }
    std::string circle;
    for (auto it = std::find(path.begin(), path.end(), at); it != path.end(); ++it) circle += text(*it) + " waits for ";
    throw ProgramError(fmt::format("phase '{}' would stand still for ever: {}{}", program(0).phase, circle, text(at)));
  }

  const std::vector<const ProgramSet*>& ranks_;
  const int alike_;
  const size_t phase_;
  std::map<const ProgramSet*, LaneQueues> queues_;
  std::vector<const LaneQueues*> of_;                // by rank
  std::vector<std::array<uint32_t, max_lanes>> at_;  // [rank][lane]: executions finished
};

}  // namespace

void verify_collectives(const std::vector<const ProgramSet*>& ranks, int alike) {
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
        static_cast<int>(r) * alike, first.programs.size(), ranks[r]->programs.size(), first.lanes.size(),
        ranks[r]->lanes.size()));
  }
  const size_t checked = all_equal ? first.programs.size() : common(first);
  for (size_t p = 0; p < checked; ++p) PhaseChecker(ranks, alike, p).check();
}

}  // namespace zrt::runtime

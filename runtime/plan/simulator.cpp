// Events: at any time each lane runs at most one execution. What is left of it shrinks at a speed that depends on what
// the rank's other lanes run; the next event is the first completion. There always is one: an execution waits for
// earlier ones only, so the earliest that has not ended can run; and programs of several stages have been checked for
// circles (verify_collectives).
#include "runtime/plan/simulator.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "runtime/ops/spec.h"
#include "runtime/plan/repeated_turns.h"

namespace zrt::runtime {
namespace {

constexpr uint32_t none = ~0u;

// All executions of a program in program order, with the executions each waits for.
struct Executions {
  std::vector<OpId> op;
  std::vector<uint32_t> iteration;
  std::vector<uint32_t> waits;  // of execution i: waits[first_wait[i]] … waits[first_wait[i + 1] - 1]
  std::vector<size_t> first_wait{0};
  std::vector<std::vector<uint32_t>> of_lane;

  Executions(const Program& program, size_t lanes, uint32_t skipped) : of_lane(lanes) {  // SkippedTurns
    std::vector<uint32_t> latest(program.ops.size(), none);
    const auto visit = [&](OpId id, uint32_t turn) {
      const auto self = static_cast<uint32_t>(op.size());
      for (OpId other : program.ops[id].waits) {
        if (latest[other] != none) waits.push_back(latest[other]);
      }
      first_wait.push_back(waits.size());
      of_lane[program.ops[id].lane].push_back(self);
      op.push_back(id);
      iteration.push_back(turn);
      latest[id] = self;
    };
    const SkippedTurns rule(program, skipped);
    for (const Segment& segment : program.segments) {
      for (uint32_t turn = 0; turn < rule.turns(segment); ++turn) {
        for (OpId id = segment.first; id < segment.first + segment.count; ++id) visit(id, turn);
      }
    }
  }
};

// One rank: its lanes, and the time that they have come to. What runs goes on at the same speed until something starts
// or ends there, so that nobody looks at a rank in between.
class SimulatedRank {
 public:
  SimulatedRank(const SimulatedStage& stage, const Cluster& cluster, const CostOf& cost, bool keep_timeline,
                uint32_t skipped)
      : set_(*stage.set),
        program_(*stage.program),
        cluster_(cluster),
        beside_host_(cluster.beside_host(stage.layout->device)),
        all_(program_, set_.lanes.size(), skipped),
        lanes_(set_.lanes.size()) {
    for (const Op& op : program_.ops) {
      costs_.push_back(cost ? cost(stage, op) : op_cost(set_, op, *stage.layout, cluster));
    }
    ends_.assign(all_.op.size(), -1);
    result_.busy_seconds.resize(set_.lanes.size());
    ending_.resize(set_.lanes.size());
    if (keep_timeline) starts_.resize(all_.op.size());
  }

  size_t executions() const { return all_.op.size(); }
  size_t lanes() const { return lanes_.size(); }

  // The op that a lane can start now; null: none.
  const Op* ready(size_t l) {
    Lane& lane = lanes_[l];
    if (lane.current != none || lane.next == all_.of_lane[l].size()) return nullptr;
    const uint32_t execution = all_.of_lane[l][lane.next];
    size_t w = all_.first_wait[execution] + lane.met;
    while (w < all_.first_wait[execution + 1] && ends_[all_.waits[w]] >= 0) ++w, ++lane.met;
    return w == all_.first_wait[execution + 1] ? &program_.ops[all_.op[execution]] : nullptr;
  }
  double seconds_of_next(size_t l) const { return costs_[all_.op[all_.of_lane[l][lanes_[l].next]]].seconds; }

  void start(size_t l, double seconds, double now) {
    if (now > clock_) advance(now - clock_, now);
    next_ = -1;
    Lane& lane = lanes_[l];
    const uint32_t execution = all_.of_lane[l][lane.next];
    if (computing(set_.lanes[l].kind)) {
      note_waits(lane, set_.lanes[l].kind, all_.first_wait[execution], all_.first_wait[execution + 1]);
    }
    const OpCost& cost = costs_[all_.op[execution]];
    lane.current = execution, lane.left = seconds, lane.resource = cost.resource, lane.blocks = cost.blocks;
    ++lane.next, lane.met = 0;
    if (!starts_.empty()) starts_[execution] = now;
  }

  // Returns when the first of what runs ends.
  double next_end() {
    if (next_ >= 0) return next_;
    step_ = std::numeric_limits<double>::infinity();
    speeds_.assign(lanes_.size(), 0);
    for (size_t l = 0; l < lanes_.size(); ++l) {
      if (lanes_[l].current == none) continue;
      speeds_[l] = speed(lanes_[l]);
      if (speeds_[l] > 0) step_ = std::min(step_, lanes_[l].left / speeds_[l]);
    }
    return next_ = clock_ + step_;
  }

  // Goes there; returns how many executions end.
  size_t advance_to_end() {
    const double step = step_;
    size_t ended = 0;
    for (size_t l = 0; l < lanes_.size(); ++l) {
      const Lane& lane = lanes_[l];
      ending_[l] = lane.current != none && speeds_[l] > 0 && lane.left / speeds_[l] <= step * (1 + 1e-12);
    }
    advance(step, next_);
    for (size_t l = 0; l < lanes_.size(); ++l) {
      if (!ending_[l]) continue;
      ends_[lanes_[l].current] = lanes_[l].free_since = clock_;
      lanes_[l].current = none;
      ++ended;
    }
    next_ = -1;
    return ended;
  }

  Simulation finish(double now) {
    result_.seconds = now;
    count_exposed();
    for (size_t i = 0; i < starts_.size(); ++i) {
      result_.timeline.push_back({all_.op[i], all_.iteration[i], starts_[i], ends_[i]});
    }
    return std::move(result_);
  }

 private:
  struct Wait {  // of a lane that computes for one that does not
    double since, until;
    LaneKind lane;
    bool comm;
  };
  struct Lane {
    size_t next = 0;          // index into its executions
    size_t met = 0;           // of what that one waits for, so many have ended
    uint32_t current = none;  // the execution that runs
    double left = 0;          // seconds of it at full speed
    double free_since = 0;    // when the execution before ended
    Resource resource = Resource::compute;
    bool blocks = false;
  };

  // Advances everything that runs, with nothing ending.
  void advance(double step, double now) {
    clock_ = now;
    for (size_t l = 0; l < lanes_.size(); ++l) {
      if (lanes_[l].current == none) continue;
      (speeds_[l] > 0 ? result_.busy_seconds[l] : result_.exposed_comm_seconds) += step;
      lanes_[l].left -= step * speeds_[l];
    }
  }

  // Counts waits as the executor does (Executor::account): a lane waits for one event after the other, and what it
  // spends on each counts for the lane that the event is of.
  void note_waits(const Lane& lane, LaneKind kind, size_t first, size_t last) {
    double time = lane.free_since;
    for (size_t w = first; w < last; ++w) {
      const uint32_t other = all_.waits[w];
      if (ends_[other] <= time) continue;
      const LaneKind awaited = set_.lanes[program_.ops[all_.op[other]].lane].kind;
      if (!computing(awaited)) waits_.push_back({time, ends_[other], kind, awaited == LaneKind::comm});
      time = ends_[other];
    }
  }

  void count_exposed() {
    for (const Wait& wait : waits_) {
      // While the compute lane works, nothing is lost where the host waits.
      const double since = wait.lane == LaneKind::compute ? wait.since : std::max(wait.since, lanes_[0].free_since);
      (wait.comm ? result_.exposed_comm_seconds : result_.exposed_io_seconds) += std::max(0.0, wait.until - since);
    }
    // No computation hides what other lanes do after the last compute op, either.
    double compute = 0, comm = 0, io = 0;
    for (size_t l = 0; l < lanes_.size(); ++l) {
      const LaneKind kind = set_.lanes[l].kind;
      double& last = computing(kind) ? compute : kind == LaneKind::comm ? comm : io;
      last = std::max(last, lanes_[l].free_since);
    }
    result_.exposed_comm_seconds += std::max(0.0, comm - compute);
    result_.exposed_io_seconds += std::max(0.0, io - std::max(compute, comm));
  }

  // Returns the speed of a lane, with what all lanes run now.
  double speed(const Lane& lane) const {
    int alike = 0;
    bool computes = false, hosts = false, inside = false, between = false, blocked = false;
    for (const Lane& other : lanes_) {
      if (other.current == none) continue;
      alike += other.resource == lane.resource;
      computes |= other.resource == Resource::compute;
      hosts |= other.resource == Resource::host;
      inside |= other.resource == Resource::inside_host;
      between |= other.resource == Resource::between_hosts;
      blocked |= other.blocks;
    }
    switch (lane.resource) {
      case Resource::compute:
        return blocked ? 0
                       : (inside ? cluster_.overlap_inside.compute : 1) *
                             (between ? cluster_.overlap_between.compute : 1) * (hosts ? beside_host_.compute : 1);
      case Resource::host:
        return computes ? beside_host_.comm : 1;
      case Resource::inside_host:
        return (computes && !blocked ? cluster_.overlap_inside.comm : 1) / alike;
      case Resource::between_hosts:
        return (computes && !blocked ? cluster_.overlap_between.comm : 1) / alike;
      case Resource::link_up:
      case Resource::link_down:
      case Resource::disk:
        return 1.0 / alike;
    }
    return 1;
  }

  const ProgramSet& set_;
  const Program& program_;
  const Cluster& cluster_;
  const Overlap beside_host_;
  const Executions all_;
  std::vector<OpCost> costs_;  // by op
  std::vector<Lane> lanes_;
  std::vector<double> starts_, ends_;  // by execution; ends: -1 before
  std::vector<double> speeds_;         // by lane; of what runs now
  std::vector<uint8_t> ending_;        // by lane
  std::vector<Wait> waits_;
  double clock_ = 0, next_ = -1;  // now, and when the first of what runs ends; below 0: not looked for yet
  double step_ = 0;               // between the two
  Simulation result_;
};

class Simulator {
 public:
  // Leaves out so many turns of each stage (SkippedTurns), or none.
  Simulator(std::span<const SimulatedStage> stages, const Cluster& cluster, bool keep_timeline, const CostOf& cost,
            std::vector<uint32_t> skipped = {})
      : stages_(stages) {
    skipped.resize(stages.size());
    for (size_t s = 0; s < stages.size(); ++s) {
      ranks_.emplace_back(stages[s], cluster, cost, keep_timeline, skipped[s]);
      left_ += ranks_.back().executions();
    }
    for (size_t r = 0; r < ranks_.size(); ++r) changed_.push_back(r);
    touched_ = changed_;
    next_ends_.resize(ranks_.size());
  }

  // Returns nothing where stages wait for each other for ever, which those of verified programs do not with all of
  // their turns.
  std::vector<Simulation> run() {
    start_ready();
    while (left_ > 0) {
      for (const size_t r : touched_) next_ends_[r] = ranks_[r].next_end();
      now_ = *std::min_element(next_ends_.begin(), next_ends_.end());
      if (now_ == std::numeric_limits<double>::infinity()) return {};
      changed_.clear();
      for (size_t r = 0; r < ranks_.size(); ++r) {
        if (next_ends_[r] != now_) continue;
        changed_.push_back(r);
        left_ -= ranks_[r].advance_to_end();
      }
      touched_ = changed_;
      start_ready();
    }
    std::vector<Simulation> all;
    for (SimulatedRank& rank : ranks_) all.push_back(rank.finish(now_));
    return all;
  }

 private:
  // An execution can become ready only where another one has ended, or a rank that takes part in it has come.
  void start_ready() {
    for (const size_t r : changed_) {
      for (size_t l = 0; l < ranks_[r].lanes(); ++l) {
        const Op* op = ranks_[r].ready(l);
        if (op) start(r, l, *op);
      }
    }
  }

  void start(size_t r, size_t l, const Op& op) {
    const ProgramSet& set = *stages_[r].set;
    const bool alone = !spec(op.kind).communicates() || ranks_.size() == 1 || !set.group(op).axes.has(Axis::pipeline);
    if (alone) return ranks_[r].start(l, ranks_[r].seconds_of_next(l), now_);
    // Lanes that communicate have the same numbers in all stages.
    const std::vector<size_t>& all = members(r, op.group);
    double seconds = 0;
    for (size_t other : all) {
      if (!ranks_[other].ready(l)) return;
      seconds = std::max(seconds, ranks_[other].seconds_of_next(l));
    }
    for (size_t other : all) ranks_[other].start(l, seconds, now_);
    touched_.insert(touched_.end(), all.begin(), all.end());
  }

  // The stages that take part in what a group of stage r exchanges.
  const std::vector<size_t>& members(size_t r, GroupId group) {
    const auto [found, added] = members_.try_emplace({r, group});
    const Mesh& mesh = stages_[r].layout->mesh;
    for (size_t other = 0; added && other < ranks_.size(); ++other) {
      const RankGroups& ranks = stages_[r].set->groups[group].ranks;
      const bool together = ranks.together(mesh.first_of(static_cast<int>(r)), mesh.first_of(static_cast<int>(other)));
      if (together) found->second.push_back(other);
    }
    return found->second;
  }

  const std::span<const SimulatedStage> stages_;
  std::vector<SimulatedRank> ranks_;
  std::map<std::pair<size_t, GroupId>, std::vector<size_t>> members_;  // by stage and group
  std::vector<size_t> changed_;                                        // ranks on which something has just ended
  std::vector<size_t> touched_;    // the same, and ranks on which something has started since
  std::vector<double> next_ends_;  // by rank
  size_t left_ = 0;
  double now_ = 0;
};

}  // namespace

Simulation simulate(const ProgramSet& set, const Program& program, const Layout& layout, const Cluster& cluster,
                    Wanted wanted) {
  const SimulatedStage stage{&set, &program, &layout};
  return std::move(simulate({&stage, 1}, cluster, wanted).front());
}

std::vector<Simulation> simulate(std::span<const SimulatedStage> stages, const Cluster& cluster, Wanted wanted,
                                 const CostOf& cost) {
  if (wanted != Wanted::timeline) {
    std::vector<Simulation> all = from_few_turns(
        stages, wanted, [&](const auto& skipped) { return Simulator(stages, cluster, false, cost, skipped).run(); });
    if (!all.empty()) return all;
  }
  return Simulator(stages, cluster, wanted == Wanted::timeline, cost).run();
}

std::vector<Simulation> simulate_step(std::span<const Compiled> stages, const Cluster& cluster, Wanted wanted) {
  std::vector<SimulatedStage> all;
  all.reserve(stages.size());
  for (const Compiled& stage : stages) all.push_back({&stage.set, &stage.set.program("step"), &stage.layout});
  return simulate(all, cluster, wanted);
}

}  // namespace zrt::runtime

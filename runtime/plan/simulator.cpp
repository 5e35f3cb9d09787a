// Events: at any time each lane runs at most one execution. What is left of it shrinks at a speed that depends on what
// the other lanes run; the next event is the first completion. There always is one: an execution waits for earlier ones
// only, so the earliest that has not ended can run.
#include "runtime/plan/simulator.h"

#include <algorithm>
#include <limits>

#include "runtime/ops/spec.h"

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

  Executions(const Program& program, size_t lanes) : of_lane(lanes) {
    std::vector<uint32_t> latest(program.ops.size(), none);
    for_each_execution(program, ~0u, [&](OpId id, uint32_t turn) {
      const auto self = static_cast<uint32_t>(op.size());
      for (OpId other : program.ops[id].waits) {
        if (latest[other] != none) waits.push_back(latest[other]);
      }
      first_wait.push_back(waits.size());
      of_lane[program.ops[id].lane].push_back(self);
      op.push_back(id);
      iteration.push_back(turn);
      latest[id] = self;
    });
  }
};

class Simulator {
 public:
  Simulator(const ProgramSet& set, const Program& program, const Layout& layout, const Cluster& cluster)
      : set_(set),
        program_(program),
        cluster_(cluster),
        beside_host_(cluster.beside_host(layout.device)),
        all_(program, set.lanes.size()),
        lanes_(set.lanes.size()) {
    for (const Op& op : program.ops) costs_.push_back(op_cost(set, op, layout, cluster));
    ends_.assign(all_.op.size(), -1);
    result_.busy_seconds.resize(set.lanes.size());
  }

  Simulation run(bool keep_timeline) {
    if (keep_timeline) starts_.resize(all_.op.size());
    size_t left = all_.op.size();
    start_ready();
    while (left > 0) {
      left -= advance();
      start_ready();
    }
    result_.seconds = now_;
    count_exposed();
    if (keep_timeline) {
      for (size_t i = 0; i < all_.op.size(); ++i) {
        result_.timeline.push_back({all_.op[i], all_.iteration[i], starts_[i], ends_[i]});
      }
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
    uint32_t current = none;  // the execution that runs
    double left = 0;          // seconds of it at full speed
    double free_since = 0;    // when the execution before ended
    Resource resource = Resource::compute;
  };

  void start_ready() {
    for (size_t l = 0; l < lanes_.size(); ++l) {
      Lane& lane = lanes_[l];
      if (lane.current != none || lane.next == all_.of_lane[l].size()) continue;
      const uint32_t execution = all_.of_lane[l][lane.next];
      const size_t first = all_.first_wait[execution], last = all_.first_wait[execution + 1];
      const bool ready = std::all_of(all_.waits.begin() + static_cast<std::ptrdiff_t>(first),
                                     all_.waits.begin() + static_cast<std::ptrdiff_t>(last),
                                     [&](uint32_t other) { return ends_[other] >= 0; });
      if (!ready) continue;
      if (computing(set_.lanes[l].kind)) note_waits(lane, set_.lanes[l].kind, first, last);
      const OpCost& cost = costs_[all_.op[execution]];
      lane.current = execution, lane.left = cost.seconds, lane.resource = cost.resource;
      ++lane.next;
      if (!starts_.empty()) starts_[execution] = now_;
    }
  }

  // As the executor does (Executor::account): a lane waits for one event after the other, and what it spends on each
  // counts for the lane that the event is of.
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
    // What other lanes do after the last compute op, no computation hides either.
    double compute = 0, comm = 0, io = 0;
    for (size_t l = 0; l < lanes_.size(); ++l) {
      const LaneKind kind = set_.lanes[l].kind;
      double& last = computing(kind) ? compute : kind == LaneKind::comm ? comm : io;
      last = std::max(last, lanes_[l].free_since);
    }
    result_.exposed_comm_seconds += std::max(0.0, comm - compute);
    result_.exposed_io_seconds += std::max(0.0, io - std::max(compute, comm));
  }

  // Of a lane, with what all lanes run now.
  double speed(const Lane& lane) const {
    int alike = 0;
    bool computes = false, hosts = false, inside = false, between = false;
    for (const Lane& other : lanes_) {
      if (other.current == none) continue;
      alike += other.resource == lane.resource;
      computes |= other.resource == Resource::compute;
      hosts |= other.resource == Resource::host;
      inside |= other.resource == Resource::inside_host;
      between |= other.resource == Resource::between_hosts;
    }
    switch (lane.resource) {
      case Resource::compute:
        return (inside ? cluster_.overlap_inside.compute : 1) * (between ? cluster_.overlap_between.compute : 1) *
               (hosts ? beside_host_.compute : 1);
      case Resource::host:
        return computes ? beside_host_.comm : 1;
      case Resource::inside_host:
        return (computes ? cluster_.overlap_inside.comm : 1) / alike;
      case Resource::between_hosts:
        return (computes ? cluster_.overlap_between.comm : 1) / alike;
      case Resource::link_up:
      case Resource::link_down:
      case Resource::disk:
        return 1.0 / alike;
    }
    return 1;
  }

  // To the next completion; returns how many executions end there.
  size_t advance() {
    double step = std::numeric_limits<double>::infinity();
    std::vector<double>& speeds = speeds_;
    speeds.assign(lanes_.size(), 0);
    for (size_t l = 0; l < lanes_.size(); ++l) {
      if (lanes_[l].current == none) continue;
      speeds[l] = speed(lanes_[l]);
      step = std::min(step, lanes_[l].left / speeds[l]);
    }
    now_ += step;
    size_t ended = 0;
    for (size_t l = 0; l < lanes_.size(); ++l) {
      Lane& lane = lanes_[l];
      if (lane.current == none) continue;
      result_.busy_seconds[l] += step;
      const bool ends = lane.left / speeds[l] <= step * (1 + 1e-12);
      lane.left -= step * speeds[l];
      if (!ends) continue;
      ends_[lane.current] = lane.free_since = now_;
      lane.current = none;
      ++ended;
    }
    return ended;
  }

  const ProgramSet& set_;
  const Program& program_;
  const Cluster& cluster_;
  const Overlap beside_host_;
  const Executions all_;
  std::vector<OpCost> costs_;  // by op
  std::vector<Lane> lanes_;
  std::vector<double> starts_, ends_;  // by execution; ends: -1 before
  std::vector<double> speeds_;
  std::vector<Wait> waits_;
  double now_ = 0;
  Simulation result_;
};

}  // namespace

Simulation simulate(const ProgramSet& set, const Program& program, const Layout& layout, const Cluster& cluster,
                    bool keep_timeline) {
  return Simulator(set, program, layout, cluster).run(keep_timeline);
}

}  // namespace zrt::runtime

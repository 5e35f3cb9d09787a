// Events: at any time each lane runs at most one execution. What is left of it shrinks at a speed that depends on what
// the other lanes run; the next event is the first completion. There always is one: an execution waits for earlier ones
// only, so the earliest that has not ended can run.
#include "runtime/simulator.h"

#include <algorithm>
#include <limits>

#include "runtime/op_cost.h"

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
      : set_(set), program_(program), cluster_(cluster), all_(program, set.lanes.size()), lanes_(set.lanes.size()) {
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
    if (keep_timeline) {
      for (size_t i = 0; i < all_.op.size(); ++i) {
        result_.timeline.push_back({all_.op[i], all_.iteration[i], starts_[i], ends_[i]});
      }
    }
    return std::move(result_);
  }

 private:
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
      if (set_.lanes[l].kind == LaneKind::compute) count_exposed(lane, first, last);
      const OpCost& cost = costs_[all_.op[execution]];
      lane.current = execution, lane.left = cost.seconds, lane.resource = cost.resource;
      ++lane.next;
      if (!starts_.empty()) starts_[execution] = now_;
    }
  }

  // As the executor does: a lane waits for one event after the other, and what it spends on each counts for the lane
  // that the event is of.
  void count_exposed(const Lane& lane, size_t first, size_t last) {
    double time = lane.free_since;
    for (size_t w = first; w < last; ++w) {
      const uint32_t other = all_.waits[w];
      if (ends_[other] <= time) continue;
      const bool comm = set_.lanes[program_.ops[all_.op[other]].lane].kind == LaneKind::comm;
      (comm ? result_.exposed_comm_seconds : result_.exposed_io_seconds) += ends_[other] - time;
      time = ends_[other];
    }
  }

  // Of a lane, with what all lanes run now.
  double speed(const Lane& lane) const {
    int alike = 0;
    bool computes = false, inside = false, between = false;
    for (const Lane& other : lanes_) {
      if (other.current == none) continue;
      alike += other.resource == lane.resource;
      computes |= other.resource == Resource::compute;
      inside |= other.resource == Resource::inside_host;
      between |= other.resource == Resource::between_hosts;
    }
    switch (lane.resource) {
      case Resource::compute:
        return (inside ? cluster_.overlap_inside.compute : 1) * (between ? cluster_.overlap_between.compute : 1);
      case Resource::inside_host:
        return (computes ? cluster_.overlap_inside.comm : 1) / alike;
      case Resource::between_hosts:
        return (computes ? cluster_.overlap_between.comm : 1) / alike;
      case Resource::host_link:
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
  const Executions all_;
  std::vector<OpCost> costs_;  // by op
  std::vector<Lane> lanes_;
  std::vector<double> starts_, ends_;  // by execution; ends: -1 before
  std::vector<double> speeds_;
  double now_ = 0;
  Simulation result_;
};

}  // namespace

Simulation simulate(const ProgramSet& set, const Program& program, const Layout& layout, const Cluster& cluster,
                    bool keep_timeline) {
  return Simulator(set, program, layout, cluster).run(keep_timeline);
}

}  // namespace zrt::runtime

#include "runtime/train/telemetry/timed_run.h"

#include <algorithm>
#include <map>

namespace zrt::runtime {
namespace {

// Place of every execution in program order.
class Positions {
 public:
  explicit Positions(const Program& program) : first_(program.ops.size()), stride_(program.ops.size()) {
    for (const Segment& segment : program.segments) {
      for (uint32_t i = 0; i < segment.count; ++i) {
        first_[segment.first + i] = count_ + i;
        stride_[segment.first + i] = segment.count;
      }
      count_ += size_t{segment.count} * segment.repeat;
    }
  }
  size_t count() const { return count_; }
  size_t of(OpId op, uint32_t iteration) const { return first_[op] + size_t{iteration} * stride_[op]; }

 private:
  std::vector<size_t> first_, stride_;
  size_t count_ = 0;
};

struct TimedLifetime {
  double begin = 0, end = 0;
  size_t last_use = 0;  // position
};

std::vector<std::vector<TimedLifetime>> find_lives(const ProgramSet& set, const TimedRun& run) {
  std::vector<std::vector<TimedLifetime>> lives(set.buffers.size());
  for (size_t position = 0; position < run.ops.size(); ++position) {
    const TimedOp& timed = run.ops[position];
    for (const Access& access : run.program->ops[timed.op].accesses) {
      const Buffer& buffer = set.buffers[access.buffer];
      if (buffer.life != Life::transient) continue;
      auto& own = lives[access.buffer];
      // Slots of one buffer live as one, as in the memory plan.
      const bool defines = access.use == Use::write && buffer.slots == 1;
      if (own.empty() || (defines && own.back().last_use != position)) {
        own.push_back({timed.start_seconds, timed.end_seconds, position});
      }
      TimedLifetime& life = own.back();
      life.begin = std::min(life.begin, timed.start_seconds);
      life.end = std::max(life.end, timed.end_seconds);
      life.last_use = position;
    }
  }
  return lives;
}

}  // namespace

std::vector<TimedRun> timed_runs(std::span<const TraceEvent> events) {
  std::map<uint32_t, std::vector<const TraceEvent*>> by_run;
  for (const TraceEvent& event : events) by_run[event.run].push_back(&event);
  std::vector<TimedRun> runs;
  for (const auto& [number, own] : by_run) {
    TimedRun run{own.front()->program, own.front()->step, {}};
    const Positions positions(*run.program);
    if (own.size() != positions.count()) continue;
    run.ops.resize(own.size());
    for (const TraceEvent* e : own) {
      run.ops[positions.of(e->op, e->iteration)] = {e->op, e->iteration, e->start_seconds, e->end_seconds,
                                                    e->received_bytes};
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<LiveBytes> live_series(const ProgramSet& set, const TimedRun& run) {
  if (run.ops.empty()) return {};
  struct Change {
    double seconds;
    size_t tier, category;
    int64_t bytes;
  };
  std::vector<Change> changes;
  LiveBytes now;
  now.seconds = run.ops.front().start_seconds;
  for (const TimedOp& op : run.ops) now.seconds = std::min(now.seconds, op.start_seconds);
  const auto lives = find_lives(set, run);
  for (size_t b = 0; b < set.buffers.size(); ++b) {
    const Buffer& buffer = set.buffers[b];
    const size_t tier = static_cast<size_t>(buffer.tier), category = static_cast<size_t>(buffer.category);
    const auto bytes = static_cast<int64_t>(buffer.bytes * buffer.slots);
    if (buffer.life != Life::transient) now.live[tier][category] += static_cast<uint64_t>(bytes);
    for (const TimedLifetime& life : lives[b]) {
      changes.push_back({life.begin, tier, category, bytes});
      changes.push_back({life.end, tier, category, -bytes});
    }
  }
  // Lives that end at a moment are gone before others begin there.
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.bytes < b.bytes;
  });
  std::vector<LiveBytes> series{now};
  for (const Change& change : changes) {
    if (series.back().seconds != change.seconds) {
      series.push_back(series.back());
      series.back().seconds = change.seconds;
    }
    uint64_t& live = series.back().live[change.tier][change.category];
    live = static_cast<uint64_t>(static_cast<int64_t>(live) + change.bytes);
  }
  return series;
}

}  // namespace zrt::runtime

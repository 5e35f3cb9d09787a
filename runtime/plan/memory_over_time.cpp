#include "runtime/plan/memory_over_time.h"

#include <algorithm>

namespace zrt::runtime {
namespace {

// One life of a buffer's contents.
struct BufferLifetime {
  double begin = 0, end = 0;
  OpId first = 0, last = 0;
  size_t position = 0;  // of its last use
  bool open = false;
};

struct Change {
  double seconds;
  int64_t bytes;
  core::Category category;
  OpId op;
};

}  // namespace

std::vector<MemoryPoint> memory_over_time(const ProgramSet& set, const Program& program,
                                          const std::vector<SimulatedOp>& timeline, core::Tier tier) {
  std::vector<Change> changes;
  std::vector<BufferLifetime> lives(set.buffers.size());
  MemoryPoint now;
  const auto close = [&](BufferId id) {
    const Buffer& buffer = set.buffers[id];
    const auto bytes = static_cast<int64_t>(buffer.bytes * buffer.slots);
    const BufferLifetime& life = lives[id];
    changes.push_back({life.begin, bytes, buffer.category, life.first});
    changes.push_back({life.end, -bytes, buffer.category, life.last});
  };
  for (const Buffer& buffer : set.buffers) {
    if (buffer.tier != tier || buffer.life == Life::transient) continue;
    now.categories[static_cast<size_t>(buffer.category)] += buffer.bytes * buffer.slots;
  }
  for (size_t position = 0; position < timeline.size(); ++position) {
    const SimulatedOp& execution = timeline[position];
    for (const Access& access : program.ops[execution.op].accesses) {
      const Buffer& buffer = set.buffers[access.buffer];
      if (buffer.tier != tier || buffer.life != Life::transient) continue;
      BufferLifetime& life = lives[access.buffer];
      const bool defines = access.use == Use::write && buffer.slots == 1;
      if (life.open && defines && life.position != position) close(access.buffer), life.open = false;
      if (!life.open) life = {execution.start_seconds, execution.end_seconds, execution.op, execution.op, 0, true};
      life.position = position;
      if (execution.end_seconds >= life.end) life.end = execution.end_seconds, life.last = execution.op;
    }
  }
  for (BufferId id = 0; id < lives.size(); ++id) {
    if (lives[id].open) close(id);
  }
  // At one instant what ends makes room for what begins.
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.bytes < b.bytes;
  });
  std::vector<MemoryPoint> points{now};
  for (const Change& change : changes) {
    now.seconds = change.seconds;
    now.op = change.op;
    now.categories[static_cast<size_t>(change.category)] += static_cast<uint64_t>(change.bytes);
    if (points.back().seconds == now.seconds) points.pop_back();
    points.push_back(now);
  }
  return points;
}

}  // namespace zrt::runtime

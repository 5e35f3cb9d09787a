#include "runtime/program/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "runtime/program/timeline.h"

namespace zrt::runtime {
namespace {

// From a defining write to the last use before the next one. Positions are those of the phase's timeline.
struct Generation {
  size_t begin, end;  // first and last execution in program order
  Clock last{};       // per lane: index + 1 of its last use there, 0 for none
  Clock known{};      // per lane: what every use of the generation knows to have finished before it
};

struct Lifetimes {
  std::vector<std::vector<Generation>> of;  // by buffer, in program order
};

Lifetimes find_lifetimes(const ProgramSet& set, const Program& program, const Sabotage& sabotage) {
  Lifetimes lives;
  lives.of.resize(set.buffers.size());
  const auto timeline = make_timeline(set, program);
  for (size_t position = 0; position < timeline.size(); ++position) {
    const Execution& e = timeline[position];
    // Before the op itself runs, its lane is one execution short of its own clock.
    Clock before = e.clock;
    --before[e.lane];
    for (const Access& access : program.ops[e.op].accesses) {
      const Buffer& buffer = set.buffers[access.buffer];
      auto& generations = lives.of[access.buffer];
      // Slots of one buffer share an address range and live as one, so only a single slot starts a new life.
      const bool defines = access.use == Use::write && buffer.slots == 1;
      const bool used_again = !defines && !generations.empty();
      if (used_again && !sabotage.shorten_life_of.empty() && buffer.name == sabotage.shorten_life_of) continue;
      if (generations.empty() || (defines && generations.back().end != position)) {
        generations.push_back({position, position, {}, before});
      }
      Generation& generation = generations.back();
      generation.end = position;
      generation.last[e.lane] = std::max(generation.last[e.lane], e.index + 1);
      for (size_t l = 0; l < max_lanes; ++l) generation.known[l] = std::min(generation.known[l], before[l]);
    }
  }
  return lives;
}

// Every use in `a` has finished before any use in `b` starts.
bool ordered(const Generation& a, const Generation& b) {
  for (size_t l = 0; l < max_lanes; ++l) {
    if (a.last[l] > b.known[l]) return false;
  }
  return true;
}

// Whether two buffers are never alive together: their lives alternate in program order and each neighbouring pair is
// ordered, which orders all of them.
bool disjoint(const std::vector<Generation>& a, const std::vector<Generation>& b) {
  size_t i = 0, j = 0;
  const Generation* previous = nullptr;
  bool previous_from_a = false;
  while (i < a.size() || j < b.size()) {
    const bool from_a = j == b.size() || (i < a.size() && a[i].begin < b[j].begin);
    const Generation& next = from_a ? a[i++] : b[j++];
    if (previous && from_a != previous_from_a && (previous->end >= next.begin || !ordered(*previous, next))) {
      return false;
    }
    previous = &next;
    previous_from_a = from_a;
  }
  return true;
}

}  // namespace

void assign_memory(ProgramSet& set, const Sabotage& sabotage) {
  std::vector<Lifetimes> phases;
  for (const Program& program : set.programs) phases.push_back(find_lifetimes(set, program, sabotage));
  auto conflict = [&](BufferId a, BufferId b) {
    const bool kept = set.buffers[a].life != Life::transient || set.buffers[b].life != Life::transient;
    return kept || std::any_of(phases.begin(), phases.end(),
                               [&](const Lifetimes& lives) { return !disjoint(lives.of[a], lives.of[b]); });
  };
  // State first, then copies of weights of layers that slide, which take each other's places and leave no gaps so, then
  // workspaces, then the rest, each largest first.
  std::vector<BufferId> order(set.buffers.size());
  std::iota(order.begin(), order.end(), 0u);
  auto rank = [&](const Buffer& buffer) {
    if (buffer.life != Life::transient) return 0;
    if (buffer.category == core::Category::weights) return 1;
    return buffer.category == core::Category::workspace ? 2 : 3;
  };
  std::stable_sort(order.begin(), order.end(), [&](BufferId a, BufferId b) {
    const Buffer &x = set.buffers[a], &y = set.buffers[b];
    return rank(x) != rank(y) ? rank(x) < rank(y) : x.extent() > y.extent();
  });
  struct Placed {
    std::vector<BufferId> all;  // by offset
    // The first of them, which stay for good and leave no gaps: nothing else lies among them.
    size_t kept = 0;
    uint64_t kept_end = 0;
  };
  std::array<Placed, core::tier_count> tiers;
  set.arena_bytes = {};
  for (BufferId id : order) {
    Buffer& buffer = set.buffers[id];
    Placed& placed = tiers[static_cast<size_t>(buffer.tier)];
    const uint64_t footprint = buffer.slots * buffer.stride();
    const auto aligned = [&](uint64_t at) {
      return (at + buffer.alignment() - 1) / buffer.alignment() * buffer.alignment();
    };
    uint64_t offset = placed.kept > 0 ? aligned(placed.kept_end) : 0;
    for (size_t p = placed.kept; p < placed.all.size(); ++p) {
      const BufferId other = placed.all[p];
      const Buffer& neighbour = set.buffers[other];
      const uint64_t neighbour_end = neighbour.offset + neighbour.slots * neighbour.stride();
      if (neighbour_end <= offset || neighbour.offset >= offset + footprint) continue;
      if (conflict(id, other)) offset = aligned(neighbour_end);
    }
    buffer.offset = offset;
    if (buffer.life != Life::transient && placed.kept == placed.all.size() && offset == placed.kept_end) {
      ++placed.kept, placed.kept_end = offset + footprint;
    }
    placed.all.insert(
        std::upper_bound(placed.all.begin(), placed.all.end(), id,
                         [&](BufferId a, BufferId b) { return set.buffers[a].offset < set.buffers[b].offset; }),
        id);
    uint64_t& end = set.arena_bytes[static_cast<size_t>(buffer.tier)];
    end = std::max(end, offset + buffer.extent());
  }
}

uint64_t total(const core::CategoryBytes& categories) {
  return std::accumulate(categories.begin(), categories.end(), uint64_t{0});
}

std::vector<LivePoint> live_bytes(const ProgramSet& set, const Program& program) {
  const Lifetimes lives = find_lifetimes(set, program, {});
  const auto timeline = make_timeline(set, program);
  // Differences of live bytes from one execution to the next.
  using Change = std::array<std::array<int64_t, core::category_count>, core::tier_count>;
  std::vector<Change> change(timeline.size() + 1);
  for (size_t b = 0; b < set.buffers.size(); ++b) {
    const Buffer& buffer = set.buffers[b];
    const size_t tier = static_cast<size_t>(buffer.tier), category = static_cast<size_t>(buffer.category);
    const int64_t bytes = static_cast<int64_t>(buffer.bytes * buffer.slots);
    auto alive = [&](size_t begin, size_t end) {
      change[begin][tier][category] += bytes;
      change[end + 1][tier][category] -= bytes;
    };
    if (buffer.life != Life::transient) {
      if (!timeline.empty()) alive(0, timeline.size() - 1);
      continue;
    }
    for (const Generation& generation : lives.of[b]) alive(generation.begin, generation.end);
  }
  std::vector<LivePoint> points;
  Change now{};
  for (size_t position = 0; position < timeline.size(); ++position) {
    LivePoint point{timeline[position].op, timeline[position].iteration, {}};
    for (size_t t = 0; t < core::tier_count; ++t) {
      for (size_t c = 0; c < core::category_count; ++c) {
        now[t][c] += change[position][t][c];
        point.tiers[t][c] = static_cast<uint64_t>(now[t][c]);
      }
    }
    points.push_back(point);
  }
  return points;
}

MemoryPlan make_memory_plan(const ProgramSet& set) {
  MemoryPlan plan;
  for (size_t t = 0; t < core::tier_count; ++t) plan.tiers[t].peak_bytes = set.arena_bytes[t];
  for (const Program& program : set.programs) {
    for (const LivePoint& point : live_bytes(set, program)) {
      for (size_t t = 0; t < core::tier_count; ++t) {
        TierPlan& tier = plan.tiers[t];
        if (total(point.tiers[t]) <= tier.live_peak_bytes) continue;
        tier.live_peak_bytes = total(point.tiers[t]);
        tier.categories = point.tiers[t];
        tier.peak_phase = program.phase;
        tier.peak_op = program.ops[point.op].name;
      }
    }
  }
  for (const Buffer& buffer : set.buffers) {
    const uint64_t bytes = buffer.bytes * buffer.slots;
    plan.ledger.push_back({buffer.name, buffer.category, buffer.tier, buffer.offset, bytes});
    TierPlan& tier = plan.tiers[static_cast<size_t>(buffer.tier)];
    if (buffer.life != Life::transient) tier.model_states[static_cast<size_t>(buffer.category)] += bytes;
  }
  return plan;
}

}  // namespace zrt::runtime

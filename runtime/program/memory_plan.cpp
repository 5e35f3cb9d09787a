#include "runtime/program/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "runtime/program/lifetimes.h"

namespace zrt::runtime {

void assign_memory(ProgramSet& set, const Sabotage& sabotage) {
  std::vector<Lifetimes> phases;
  for (const Program& program : set.programs) phases.emplace_back(set, program, sabotage.shorten_life_of);
  auto conflict = [&](BufferId a, BufferId b) {
    const bool kept = set.buffers[a].life != Life::transient || set.buffers[b].life != Life::transient;
    return kept ||
           std::any_of(phases.begin(), phases.end(), [&](const Lifetimes& lives) { return !lives.disjoint(a, b); });
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
  const Lifetimes lives(set, program);
  const std::vector<Execution>& timeline = lives.timeline();
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
    for (const Generation& generation : lives.of(static_cast<BufferId>(b))) alive(generation.begin, generation.end);
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

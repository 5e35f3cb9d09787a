#include "runtime/program/lifetimes.h"

#include <algorithm>
#include <iterator>

namespace zrt::runtime {
namespace {

// True where every use in `a` has finished before any use in `b` starts.
bool ordered(const Generation& a, const Generation& b) {
  for (size_t l = 0; l < max_lanes; ++l) {
    if (a.last[l] > b.known[l]) return false;
  }
  return true;
}

}  // namespace

Lifetimes::Lifetimes(const ProgramSet& set, const Program& program, const std::string& shortened)
    : timeline_(make_timeline(set, program)), of_(set.buffers.size()), lanes_(max_lanes) {
  for (size_t position = 0; position < timeline_.size(); ++position) {
    const Execution& e = timeline_[position];
    lanes_[e.lane].push_back(position);
    // Before the op itself runs, its lane is one execution short of its own clock.
    Clock before = e.clock;
    --before[e.lane];
    for (const Access& access : program.ops[e.op].accesses) {
      const Buffer& buffer = set.buffers[access.buffer];
      auto& generations = of_[access.buffer];
      // Slots of one buffer share an address range and live as one, so only a single slot starts a new life.
      const bool defines = access.use == Use::write && buffer.slots == 1;
      const bool used_again = !defines && !generations.empty();
      if (used_again && !shortened.empty() && buffer.name == shortened) continue;
      if (generations.empty() || (defines && generations.back().end != position)) {
        generations.push_back({position, position, {}, before});
      }
      Generation& generation = generations.back();
      generation.end = position;
      generation.last[e.lane] = std::max(generation.last[e.lane], e.index + 1);
      for (size_t l = 0; l < max_lanes; ++l) generation.known[l] = std::min(generation.known[l], before[l]);
    }
  }
  std::transform(of_.begin(), of_.end(), std::back_inserter(stretches_),
                 [&](const auto& generations) { return stretches_of(generations); });
}

// Two buffers are disjoint where their lives alternate in program order and each neighbouring pair is ordered, which
// orders all of them.
bool Lifetimes::disjoint(BufferId one, BufferId other) const {
  if ((stretches_[one] & stretches_[other]) == 0) return true;
  const std::vector<Generation>&a = of_[one], &b = of_[other];
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

Lifetimes::Stretches Lifetimes::stretches_of(const std::vector<Generation>& generations) const {
  constexpr size_t count = 64;
  Stretches all = 0;
  const auto number = [&](size_t position) { return position * count / timeline_.size(); };
  for (const Generation& generation : generations) {
    for (size_t stretch = number(generation.begin); stretch <= number(generation.end); ++stretch) {
      all |= Stretches{1} << stretch;
    }
    for (size_t l = 0; l < max_lanes && ~all != 0; ++l) {
      for (size_t n = generation.known[l]; n < lanes_[l].size() && lanes_[l][n] < generation.begin; ++n) {
        all |= Stretches{1} << number(lanes_[l][n]);
      }
    }
  }
  return all;
}

}  // namespace zrt::runtime

// Says when the buffers of a program are alive, and which of them never are at once on any interleaving of the lanes.
#pragma once
#include <string>
#include <vector>

#include "runtime/program/timeline.h"

namespace zrt::runtime {

// From a defining write to the last use before the next one. Positions are those of the phase's timeline.
struct Generation {
  size_t begin, end;  // first and last execution in program order
  Clock last{};       // per lane: index + 1 of its last use there, 0 for none
  Clock known{};      // per lane: what every use of the generation knows to have finished before it
};

class Lifetimes {
 public:
  // Uses of the buffer `shortened` behind its first one are left out (Sabotage::shorten_life_of); "": of none.
  Lifetimes(const ProgramSet& set, const Program& program, const std::string& shortened = "");

  const std::vector<Generation>& of(BufferId buffer) const { return of_[buffer]; }  // in program order
  const std::vector<Execution>& timeline() const { return timeline_; }
  // Says whether two buffers are never alive together.
  bool disjoint(BufferId a, BufferId b) const;

 private:
  // A bit for each stretch of the timeline, of 64, in which a buffer is alive, or in which an op runs that may not have
  // ended when it comes alive. Buffers without one in common are disjoint: most pairs are seen to be so at once.
  using Stretches = uint64_t;
  Stretches stretches_of(const std::vector<Generation>& generations) const;

  std::vector<Execution> timeline_;
  std::vector<std::vector<Generation>> of_;  // by buffer
  std::vector<Stretches> stretches_;         // by buffer
  std::vector<std::vector<size_t>> lanes_;   // by lane: positions of its executions
};

}  // namespace zrt::runtime

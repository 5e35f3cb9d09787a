// Tests ask a plan for its suggestions and the memory of a rank's device, on a cluster that has so much of it.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/runtime/plan/planned.h"

namespace zrt::planned_memory {

using namespace zrt::runtime;
using core::Category;
using testing::Planned;
using testing::planned;

inline bool moves(const Suggestion& suggestion) {
  return suggestion.changes.front().first == "memory.placement";
}

// Suggests another way to hold or share what a rank has, at the same ranks, stage and microbatch.
inline bool goes_another_way(const Suggestion& suggestion) {
  const std::string& key = suggestion.changes.front().first;
  return moves(suggestion) || key == "memory.recompute" || key == "memory.moments" || key == "parallel.sequence" ||
         key == "parallel.tensor" || key == "parallel.pipeline" || key == "parallel.schedule";
}

// Only the suggestions of more or less: ranks, stage, microbatch, windows, units and overlap.
inline std::unique_ptr<Planned> planned_in_place(const std::vector<std::string>& sets, int ranks,
                                                 const std::optional<Cluster>& cluster = {}) {
  auto p = planned(sets, ranks, cluster);
  std::erase_if(p->plan.suggestions, goes_another_way);
  return p;
}

inline const TierPlan& device(const Planned& p) {
  return p.plan.stages.at(0).compiled.plan.device();
}

inline uint64_t states(const Planned& p, Category category) {
  return device(p).model_states[static_cast<size_t>(category)];
}

inline Cluster a_cluster(uint64_t device_bytes) {
  Cluster cluster = find_cluster("dgx-a100");
  cluster.tier_bytes[0] = device_bytes;
  cluster.reserved = {};
  return cluster;
}

}  // namespace zrt::planned_memory

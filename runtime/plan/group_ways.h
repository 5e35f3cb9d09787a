// Lists the groups of a plan, and the way by which the ranks of each reach each other on its cluster.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/cost/cost.h"
#include "runtime/plan/plan.h"

namespace zrt::runtime {

struct GroupWay {
  Group group;
  HostSpread at;
  Way way = Way::memory;
  uint64_t staging_bytes = 0;  // of each rank's GPU, for NCCL's sums
};
// The groups in which several ranks of a plan exchange on its cluster, by name; without a cluster none.
std::vector<GroupWay> group_ways(const Plan& plan);

// A line for each way, such as "groups between hosts, by NCCL: dp (16 ranks on 2 hosts)".
std::string group_ways_text(const Plan& plan);
// [{"name", "ranks", "hosts", "way": "memory", "nccl" or "messages", "staging_bytes"}], always.
nlohmann::ordered_json group_ways_json(const Plan& plan);

}  // namespace zrt::runtime

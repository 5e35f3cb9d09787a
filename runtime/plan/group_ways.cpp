#include "runtime/plan/group_ways.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace zrt::runtime {
namespace {

struct WayWords {
  std::string_view name, text;
};
// Words stand in the order of Way.
constexpr WayWords way_words[] = {
    {"memory",
     "inside a host, by each other's memory, or as with --transport nccl by processes whose GPUs cannot be connected"},
    {"nccl", "between hosts, by NCCL"},
    {"messages", "between hosts, by messages"}};

const WayWords& words_of(Way way) {
  return way_words[static_cast<size_t>(way)];
}

// The groups of several ranks that ops belong to.
std::set<GroupId> used_groups(const ProgramSet& set) {
  std::set<GroupId> used;
  for (const Program& program : set.programs) {
    for (const Op& op : program.ops) {
      if (set.group(op).ranks.size > 1) used.insert(op.group);
    }
  }
  return used;
}

}  // namespace

std::vector<GroupWay> group_ways(const Plan& plan) {
  if (!plan.cluster) return {};
  std::map<std::string, GroupWay> ways;  // stages have groups in common
  for (const StagePlan& stage : plan.stages) {
    for (const GroupId id : used_groups(stage.compiled.set)) {
      const Group& group = stage.compiled.set.groups[id];
      const HostSpread at = host_spread(group.ranks, stage.compiled.layout.mesh.world(), plan.cluster->ranks_per_host,
                                        plan.cluster->distribution);
      const uint64_t staging = group.staging == no_buffer ? 0 : stage.compiled.set.buffers[group.staging].bytes;
      const Way way = way_of(at, *plan.cluster);
      ways[group.name] = {group, at, way, staging};
    }
  }
  std::vector<GroupWay> list;
  list.reserve(ways.size());
  for (auto& [name, way] : ways) list.push_back(std::move(way));
  return list;
}

std::string group_ways_text(const Plan& plan) {
  std::map<std::pair<Way, bool>, std::string> groups;
  for (const GroupWay& one : group_ways(plan)) {
    const bool inside = one.way == Way::nccl && one.at.hosts == 1;
    std::string& text = groups[{one.way, inside}];
    text +=
        fmt::format("{}{} ({} ranks{}{})", text.empty() ? "" : ", ", one.group.name, one.at.ranks,
                    one.at.hosts > 1 ? fmt::format(" on {} hosts", one.at.hosts) : "",
                    one.staging_bytes > 0 ? fmt::format(", {} for sums", core::format_bytes(one.staging_bytes)) : "");
  }
  std::string text;
  for (const auto& [way, names] : groups) {
    const std::string_view words = way.second ? "inside a host, by NCCL" : words_of(way.first).text;
    text += fmt::format("groups {}: {}\n", words, names);
  }
  return text;
}

nlohmann::ordered_json group_ways_json(const Plan& plan) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const GroupWay& one : group_ways(plan)) {
    json.push_back({{"name", one.group.name},
                    {"ranks", one.at.ranks},
                    {"hosts", one.at.hosts},
                    {"way", words_of(one.way).name},
                    {"staging_bytes", one.staging_bytes}});
  }
  return json;
}

}  // namespace zrt::runtime

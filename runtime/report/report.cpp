#include "runtime/report/report.h"

#include <cmath>
#include <iterator>
#include <map>

#include "runtime/report/draw/page.h"
#include "runtime/report/sections.h"

namespace zrt::runtime::report {
namespace {

std::map<int, PlannedRank> planned_ranks(const RunData& run) {
  std::map<int, PlannedRank> planned;
  if (!run.memory.is_object() || !run.memory.contains("ranks")) return planned;
  for (const nlohmann::json& rank : run.memory["ranks"]) {
    const double number = report::number(rank, "rank"), stage = report::number(rank, "stage");
    if (!std::isfinite(number)) continue;
    PlannedRank& own = planned[static_cast<int>(number)];
    if (std::isfinite(stage)) own.stage = static_cast<int>(stage);
    const nlohmann::json::json_pointer place("/tiers/device/planned_peak_bytes");
    if (rank.contains(place) && rank[place].is_number()) own.device_bytes = rank[place].get<double>();
  }
  return planned;
}

void append_parts(Parts& parts, Parts more) {
  std::move(more.begin(), more.end(), std::back_inserter(parts));
}

}  // namespace

std::string report_page(const std::filesystem::path& folder) {
  RunData run = read_run(folder);
  const std::vector<TracedRank> trace = read_trace(folder / "trace.json", run.notes);
  Parts parts = facts(run);
  append_parts(parts, step_charts(run));
  append_parts(parts, experts_part(run));
  append_parts(parts, memory_part(run));
  append_parts(parts, timeline_part(trace, planned_ranks(run)));
  const nlohmann::json name = run.key("run", "name");
  return draw::page("Run " + (name.is_string() ? name.get<std::string>() : folder.string()) + " in " +
                        std::filesystem::absolute(folder).lexically_normal().string(),
                    parts);
}

}  // namespace zrt::runtime::report

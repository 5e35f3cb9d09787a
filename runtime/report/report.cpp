#include "runtime/report/report.h"

#include <iterator>

#include "runtime/report/draw/page.h"
#include "runtime/report/sections.h"

namespace zrt::runtime::report {
namespace {

double planned_device_bytes(const RunData& run) {
  const nlohmann::json::json_pointer place("/ranks/0/tiers/device/planned_peak_bytes");
  return run.memory.is_object() && run.memory.contains(place) && run.memory[place].is_number()
             ? run.memory[place].get<double>()
             : 0;
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
  append_parts(parts, memory_part(run));
  append_parts(parts, timeline_part(trace, planned_device_bytes(run)));
  const nlohmann::json name = run.key("run", "name");
  return draw::page("Run " + (name.is_string() ? name.get<std::string>() : folder.string()) + " in " +
                        std::filesystem::absolute(folder).lexically_normal().string(),
                    parts);
}

}  // namespace zrt::runtime::report

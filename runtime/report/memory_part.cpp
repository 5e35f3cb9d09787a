#include <fmt/format.h>

#include <algorithm>

#include "core/ledger.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/draw/svg.h"
#include "runtime/report/sections.h"

namespace zrt::runtime::report {
namespace {

using Json = nlohmann::json;

constexpr size_t most_bars = 64;  // ranks of the chart; the table holds all

std::string bytes_text(double bytes) {
  return std::isfinite(bytes) && bytes >= 0 ? fmt::format("{:.0f}", bytes) : "";
}

// Ranks by tier, each a bar of its categories at the planned peak.
std::string categories_chart(const std::string& tier, const Json& ranks) {
  draw::LaneChart chart;
  chart.title = fmt::format("Live {} memory of each rank at the planned peak, by category", tier);
  chart.x_unit = draw::Unit::bytes;
  for (const std::string_view name : core::category_names) chart.kinds.emplace_back(name);
  for (const Json& rank : ranks) {
    if (chart.lanes.size() == most_bars) break;
    if (!rank.is_object() || !rank.contains("tiers") || !rank["tiers"].is_object()) continue;
    const Json& own = rank["tiers"].value(tier, Json());
    if (!own.is_object() || !own.contains("categories")) continue;
    const auto lane = static_cast<uint32_t>(chart.lanes.size());
    chart.lanes.push_back(fmt::format("rank {:.0f}", number(rank, "rank")));
    double at = 0;
    for (uint32_t c = 0; c < core::category_count; ++c) {
      const double bytes = number(own["categories"], chart.kinds[c].c_str());
      if (!(bytes > 0)) continue;
      chart.bars.push_back({lane, c, at, at + bytes, chart.kinds[c]});
      at += bytes;
    }
  }
  return chart.bars.empty() ? "" : draw::draw_lanes(chart);
}

}  // namespace

Parts memory_part(const RunData& run) {
  if (!run.memory.is_object() || !run.memory.contains("ranks") || !run.memory["ranks"].is_array()) return {};
  const Json& ranks = run.memory["ranks"];
  std::vector<std::vector<std::string>> rows;
  bool differs = false;
  const bool staged = std::any_of(ranks.begin(), ranks.end(),
                                  [](const Json& rank) { return rank.is_object() && number(rank, "stage") > 0; });
  for (const Json& rank : ranks) {
    if (!rank.is_object() || !rank.contains("tiers") || !rank["tiers"].is_object()) continue;
    for (const auto& [tier, own] : rank["tiers"].items()) {
      const double planned = number(own, "planned_peak_bytes"), measured = number(own, "measured_peak_bytes");
      if (!(planned > 0) && !(measured > 0)) continue;
      differs = differs || planned != measured;
      const auto word = [&own = own](const char* name) {
        return own.contains(name) && own[name].is_string() ? own[name].template get<std::string>() : std::string();
      };
      const std::string stage = staged ? fmt::format(", stage {:.0f}", number(rank, "stage")) : "";
      rows.push_back({fmt::format("{:.0f}{}", number(rank, "rank"), stage), tier, bytes_text(planned),
                      bytes_text(measured), planned == measured ? "equal" : "differs",
                      word("peak_op").empty() ? "" : fmt::format("{} ({})", word("peak_op"), word("peak_phase"))});
    }
  }
  if (rows.empty()) return {};
  Parts parts{"<h2>Memory: planned and measured peak of each rank, in bytes</h2>\n"};
  if (differs) parts.push_back("<p class=\"bad\">A measured peak differs from the planned one.</p>\n");
  parts.push_back(draw::table({"rank", "tier", "planned", "measured", "", "peak at"}, rows));
  for (const std::string_view tier : core::tier_names) parts.push_back(categories_chart(std::string(tier), ranks));
  if (!run.memory.contains("processes") || !run.memory["processes"].is_array()) return parts;
  std::vector<std::vector<std::string>> processes, gpus;
  for (const Json& process : run.memory["processes"]) {
    if (!process.is_object()) continue;
    const std::string ranks_of = process.value("ranks", Json()).dump();
    processes.push_back(
        {ranks_of, bytes_text(number(process, "outside_arena_bytes")), bytes_text(number(process, "rss_peak_bytes"))});
    if (!process.contains("gpu") || !process["gpu"].is_object()) continue;
    const Json& gpu = process["gpu"];
    gpus.push_back({ranks_of, bytes_text(number(gpu, "arena_bytes")), bytes_text(number(gpu, "context_bytes")),
                    bytes_text(number(gpu, "library_bytes"))});
  }
  parts.push_back(
      draw::table({"process of ranks", "outside the arenas, bytes", "peak of the process, bytes"}, processes));
  if (gpus.empty()) return parts;
  parts.push_back(draw::table({"GPUs of ranks", "arenas, bytes", "in use before the run (context, others), bytes",
                               "taken by libraries (kernels, NCCL), bytes"},
                              gpus));
  return parts;
}

}  // namespace zrt::runtime::report

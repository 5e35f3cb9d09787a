#include <fmt/format.h>

#include <algorithm>

#include "core/ledger.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/draw/svg.h"
#include "runtime/report/sections.h"

namespace zrt::runtime::report {
namespace {

constexpr size_t drawn_ranks = 8, most_memory_ranks = 2;
constexpr double bars_per_lane = 1500, points_per_chart = 800;

// Ops too short to be seen become one bar with what follows them closely, so that a page stays small.
class LaneBars {
 public:
  LaneBars(draw::LaneChart& chart, double end) : chart_(chart), least_(end / bars_per_lane) {}

  void add(uint32_t lane, const TracedOp& op) {
    const uint32_t kind = kind_of(op.kind);
    draw::Bar* last = last_;
    const bool shorter = op.end_seconds - op.start_seconds < least_;
    if (last && last->lane == lane && shorter && op.end_seconds - last->start < least_) {
      last->end = std::max(last->end, op.end_seconds);
      last->text = fmt::format("{} ops, the last of them {}", ++merged_, op.name);
      return;
    }
    merged_ = 1;
    chart_.bars.push_back({lane, kind, op.start_seconds, op.end_seconds, fmt::format("{}\n{}", op.name, op.details)});
    last_ = &chart_.bars.back();
  }

 private:
  uint32_t kind_of(const std::string& name) {
    const auto found = std::find(chart_.kinds.begin(), chart_.kinds.end(), name);
    if (found == chart_.kinds.end()) chart_.kinds.push_back(name);
    return static_cast<uint32_t>(std::find(chart_.kinds.begin(), chart_.kinds.end(), name) - chart_.kinds.begin());
  }
  draw::LaneChart& chart_;
  const double least_;
  draw::Bar* last_ = nullptr;  // of the chart
  int64_t merged_ = 1;
};

std::string lanes_chart(const std::vector<TracedRank>& ranks, double end) {
  draw::LaneChart chart;
  chart.title = fmt::format("Step {}: what each lane of each rank did", ranks.front().step);
  chart.x_end = end;
  LaneBars bars(chart, end);
  for (size_t r = 0; r < ranks.size() && r < drawn_ranks; ++r) {
    const TracedRank& rank = ranks[r];
    std::map<int, std::vector<const TracedOp*>> by_lane;
    for (const TracedOp& op : rank.ops) by_lane[op.lane].push_back(&op);
    for (auto& [number, ops] : by_lane) {
      const auto name = rank.lanes.find(number);
      const auto lane = static_cast<uint32_t>(chart.lanes.size());
      chart.lanes.push_back(
          fmt::format("rank {} {}", rank.rank, name == rank.lanes.end() ? std::to_string(number) : name->second));
      std::stable_sort(ops.begin(), ops.end(),
                       [](const TracedOp* a, const TracedOp* b) { return a->start_seconds < b->start_seconds; });
      for (const TracedOp* op : ops) bars.add(lane, *op);
    }
  }
  return draw::draw_lanes(chart);
}

// Keeps, of points that share a pixel, the one with the most bytes: a peak must be seen.
std::string memory_chart(const TracedRank& rank, const std::string& tier, const std::vector<TracedMemory>& points,
                         double end, double planned) {
  draw::ValueChart chart;
  chart.title = fmt::format("Live {} memory of rank {} over this step", tier, rank.rank);
  chart.x_unit = draw::Unit::seconds;
  chart.y_unit = draw::Unit::bytes;
  chart.x_end = end;
  chart.stacked = chart.steps = true;
  for (uint32_t c = 0; c < core::category_count; ++c) {
    const std::string category(core::category_names[c]);
    const bool used = std::any_of(points.begin(), points.end(), [&](const auto& p) {
      const auto found = p.bytes.find(category);
      return found != p.bytes.end() && found->second > 0;
    });
    if (used) chart.series.push_back({category, {}, c});
  }
  const auto total = [](const TracedMemory& point) {
    double sum = 0;
    for (const auto& [category, bytes] : point.bytes) sum += bytes;
    return sum;
  };
  const TracedMemory* chosen = nullptr;
  const auto keep = [&](double seconds) {
    chart.x.push_back(seconds);
    for (draw::Series& series : chart.series) {
      const auto found = chosen->bytes.find(series.name);
      series.y.push_back(found == chosen->bytes.end() ? 0 : found->second);
    }
  };
  for (size_t i = 0; i < points.size(); ++i) {
    if (chosen == nullptr || total(points[i]) > total(*chosen)) chosen = &points[i];
    const double next = i + 1 < points.size() ? points[i + 1].seconds : end;
    const bool same_pixel = i + 1 < points.size() && chosen != nullptr &&
                            next - (chart.x.empty() ? 0 : chart.x.back()) < end / points_per_chart;
    if (same_pixel) continue;
    keep(chosen->seconds);
    chosen = nullptr;
  }
  if (!chart.x.empty()) {
    chosen = &points.back();
    keep(end);
  }
  if (planned > 0) {
    chart.limit = planned;
    chart.limit_name = "planned peak of the arena";
  }
  return draw::draw_values(chart);
}

// Says how long each rank computes in a step, and for how much of it not, which includes the bubble of a pipeline.
std::string idle_table(const std::vector<TracedRank>& ranks, double end) {
  std::vector<std::vector<std::string>> rows;
  for (const TracedRank& rank : ranks) {
    double busy = 0;
    for (const TracedOp& op : rank.ops) {
      const auto lane = rank.lanes.find(op.lane);
      if (lane != rank.lanes.end() && lane->second == "compute") busy += op.end_seconds - op.start_seconds;
    }
    rows.push_back({fmt::format("{}", rank.rank), draw::number_text(busy, draw::Unit::seconds),
                    fmt::format("{:.1f} %", 100 * (1 - busy / end))});
  }
  return draw::table({"rank", "computes", "idle"}, rows);
}

}  // namespace

Parts timeline_part(const std::vector<TracedRank>& all, const std::map<int, PlannedRank>& planned) {
  const auto planned_of = [&](const TracedRank& rank) {
    const auto found = planned.find(rank.rank);
    return found == planned.end() ? PlannedRank{} : found->second;
  };
  // By their place in their stage, so that what is drawn shows every stage.
  std::map<int, int> of_stage;
  std::map<std::pair<int, int>, TracedRank> in_order;
  for (const TracedRank& rank : all) {
    if (rank.ops.empty()) continue;
    const int stage = planned_of(rank).stage, place = of_stage[stage]++;
    in_order[{place, stage}] = rank;
  }
  std::vector<TracedRank> ranks;
  ranks.reserve(in_order.size());
  for (auto& [place, rank] : in_order) ranks.push_back(std::move(rank));
  if (ranks.empty()) return {};
  double end = 0;
  for (const TracedRank& rank : ranks) {
    for (const TracedOp& op : rank.ops) end = std::max(end, op.end_seconds);
  }
  Parts parts{lanes_chart(ranks, end), idle_table(ranks, end)};
  if (ranks.size() > drawn_ranks) {
    parts.push_back(fmt::format("<p>{} of {} ranks are drawn; trace.json holds all.</p>\n", drawn_ranks, ranks.size()));
  }
  const size_t charts = std::max(most_memory_ranks, std::min(of_stage.size(), drawn_ranks));
  for (size_t r = 0; r < ranks.size() && r < charts; ++r) {
    for (const auto& [tier, points] : ranks[r].memory) {
      const double bytes = tier == "device" ? planned_of(ranks[r]).device_bytes : 0;
      parts.push_back(memory_chart(ranks[r], tier, points, end, bytes));
    }
  }
  return parts;
}

}  // namespace zrt::runtime::report

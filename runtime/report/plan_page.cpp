// A page of a step: lanes and memory over time. Of a long step its start and its end, because the turns between are
// alike, and a page has to stay small.
#include "runtime/report/plan_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/ops/spec.h"
#include "runtime/plan/memory_over_time.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/draw/svg.h"

namespace zrt::runtime {
namespace {

constexpr size_t drawn_ops = 1500;  // of a part

struct PagePart {
  std::string title;
  double from, to;
};

// Without a cluster, one op after the other, each as long as the next.
std::vector<SimulatedOp> in_program_order(const Program& program) {
  std::vector<SimulatedOp> timeline;
  for_each_execution(program, 2, [&](OpId op, uint32_t iteration) {
    const auto at = static_cast<double>(timeline.size());
    timeline.push_back({op, iteration, at, at + 1});
  });
  return timeline;
}

double end_of(const std::vector<SimulatedOp>& timeline) {
  double end = 0;
  for (const SimulatedOp& op : timeline) end = std::max(end, op.end_seconds);
  return end;
}

std::vector<PagePart> parts_of(const std::vector<SimulatedOp>& timeline) {
  const double end = end_of(timeline);
  if (timeline.size() <= 2 * drawn_ops) return {{"the step", 0, end}};
  return {{fmt::format("the first {} ops of the step", drawn_ops), 0, timeline[drawn_ops].start_seconds},
          {fmt::format("the last {} ops of the step", drawn_ops), timeline[timeline.size() - drawn_ops].start_seconds,
           end}};
}

std::string lanes_chart(const RankGroup& group, const Program& program, const std::vector<SimulatedOp>& timeline,
                        const PagePart& part, draw::Unit unit) {
  draw::LaneChart chart;
  chart.title = "Lanes: " + part.title;
  chart.x_unit = unit;
  chart.x_start = part.from, chart.x_end = part.to;
  for (const Lane& lane : group.compiled.set.lanes) chart.lanes.push_back(lane.name());
  for (const SimulatedOp& execution : timeline) {
    if (execution.end_seconds <= part.from || execution.start_seconds >= part.to) continue;
    if (execution.end_seconds <= execution.start_seconds) continue;
    const Op& op = program.ops[execution.op];
    const std::string kind(op_kind_name(op.kind));
    const auto found = std::find(chart.kinds.begin(), chart.kinds.end(), kind);
    const auto number = static_cast<uint32_t>(found - chart.kinds.begin());
    if (found == chart.kinds.end()) chart.kinds.push_back(kind);
    chart.bars.push_back({op.lane, number, execution.start_seconds, execution.end_seconds,
                          spec(op.kind).of_microbatch
                              ? fmt::format("{}, microbatch {}", op.name, op.microbatch.at(execution.iteration))
                              : op.name});
  }
  return draw::draw_lanes(chart);
}

std::string memory_chart(const Program& program, const std::vector<MemoryPoint>& points, const PagePart& part,
                         draw::Unit unit, core::Tier tier, const Limits& limits) {
  const auto& limit = limits.tiers[static_cast<size_t>(tier)];
  draw::ValueChart chart;
  chart.title = fmt::format("Live bytes of the {} tier: {}", core::tier_names[static_cast<size_t>(tier)], part.title);
  chart.x_unit = unit, chart.y_unit = draw::Unit::bytes;
  chart.x_start = part.from, chart.x_end = part.to;
  chart.stacked = chart.steps = true;
  core::CategoryBytes largest{};
  uint64_t highest = 0;
  for (const MemoryPoint& point : points) {
    highest = std::max(highest, total(point.categories));
    for (size_t c = 0; c < core::category_count; ++c) largest[c] = std::max(largest[c], point.categories[c]);
  }
  for (size_t c = 0; c < core::category_count; ++c) {
    if (largest[c] > 0) chart.series.push_back({std::string(core::category_names[c]), {}});
  }
  // A limit far above would press everything else to the ground.
  if (limit && limit->bytes < 3 * highest) {
    chart.limit = static_cast<double>(limit->bytes);
    chart.limit_name = limit->from;
  }
  const auto add = [&](const MemoryPoint& point, double at) {
    chart.x.push_back(at);
    chart.labels.push_back(program.ops[point.op].name);
    size_t s = 0;
    for (size_t c = 0; c < core::category_count; ++c) {
      if (largest[c] > 0) chart.series[s++].y.push_back(static_cast<double>(point.categories[c]));
    }
  };
  const MemoryPoint* last = nullptr;
  for (const MemoryPoint& point : points) {
    if (point.seconds > part.to) break;
    if (point.seconds >= part.from) {
      if (last && chart.x.empty() && point.seconds > part.from) add(*last, part.from);
      add(point, point.seconds);
    }
    last = &point;
  }
  if (last) add(*last, part.to);
  return draw::draw_values(chart);
}

std::string summary_table(const RankGroup& group) {
  std::vector<std::vector<std::string>> rows;
  for (size_t t = 0; t < core::tier_count; ++t) {
    const TierPlan& tier = group.compiled.plan.tiers[t];
    if (tier.peak_bytes == 0) continue;
    rows.push_back({std::string(core::tier_names[t]), std::to_string(tier.peak_bytes),
                    core::format_bytes(tier.peak_bytes), tier.peak_phase, tier.peak_op});
  }
  return draw::table({"tier", "planned peak, bytes", "", "phase", "op"}, rows);
}

}  // namespace

std::string plan_page(const Plan& plan) {
  std::vector<std::string> parts;
  for (const RankGroup& group : plan.groups) {
    const Program& program = group.compiled.set.program("step");
    const auto timeline = plan.cluster
                              ? simulate(group.compiled.set, program, *plan.layout, *plan.cluster, true).timeline
                              : in_program_order(program);
    const draw::Unit unit = group.step ? draw::Unit::seconds : draw::Unit::plain;
    parts.push_back(fmt::format(
        "<h2>Ranks {} to {}</h2>\n<p>{}</p>\n", group.first, group.last,
        group.step
            ? draw::escaped(fmt::format("{}: {:.4g} s a step, of which computation waits {:.4g} s for "
                                        "communication.",
                                        plan.cluster->name, group.step->seconds, group.step->exposed_comm_seconds))
            : "The axes count ops in program order, with two turns of what repeats; --cluster gives them time."));
    parts.push_back(summary_table(group));
    for (const PagePart& part : parts_of(timeline)) {
      parts.push_back(lanes_chart(group, program, timeline, part, unit));
      for (size_t t = 0; t < core::tier_count; ++t) {
        const auto tier = static_cast<core::Tier>(t);
        const auto points = memory_over_time(group.compiled.set, program, timeline, tier);
        if (group.compiled.plan.tiers[t].peak_bytes > 0) {
          parts.push_back(memory_chart(program, points, part, unit, tier, plan.limits));
        }
      }
    }
  }
  return draw::page(fmt::format("Plan of {} parameters on {} ranks", plan.layout->model->parameters(), plan.layout->dp),
                    parts);
}

}  // namespace zrt::runtime

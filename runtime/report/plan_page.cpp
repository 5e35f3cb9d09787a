// Long steps are drawn at their start and their end, because the turns between are alike, and a page has to stay small.
#include "runtime/report/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/format_count.h"
#include "runtime/ops/spec.h"
#include "runtime/plan/memory_over_time.h"
#include "runtime/plan/placement_text.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/draw/svg.h"
#include "runtime/report/step_overview.h"

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

// The kinds of op that any stage's step has: a colour each in all charts.
std::vector<OpKind> kinds_of(const Plan& plan) {
  std::set<OpKind> kinds;
  for (const StagePlan& stage : plan.stages) {
    for (const Op& op : stage.compiled.set.program("step").ops) kinds.insert(op.kind);
  }
  return {kinds.begin(), kinds.end()};
}

// Lanes without an op in the step are left out.
std::string lanes_chart(const StagePlan& stage, const Program& program, const std::vector<SimulatedOp>& timeline,
                        const PagePart& part, draw::Unit unit, const std::vector<OpKind>& kinds) {
  draw::LaneChart chart;
  for (const OpKind kind : kinds) chart.kinds.emplace_back(op_kind_name(kind));
  chart.title = "Lanes: " + part.title;
  chart.x_unit = unit;
  chart.x_start = part.from, chart.x_end = part.to;
  const std::vector<Lane>& lanes = stage.compiled.set.lanes;
  std::vector<uint32_t> rows(lanes.size());
  for (size_t l = 0; l < lanes.size(); ++l) {
    rows[l] = static_cast<uint32_t>(chart.lanes.size());
    const auto on_lane = [&](const Op& op) { return op.lane == l; };
    if (std::any_of(program.ops.begin(), program.ops.end(), on_lane)) chart.lanes.push_back(lanes[l].name());
  }
  for (const SimulatedOp& execution : timeline) {
    if (execution.end_seconds <= part.from || execution.start_seconds >= part.to) continue;
    if (execution.end_seconds <= execution.start_seconds) continue;
    const Op& op = program.ops[execution.op];
    const auto kind = static_cast<uint32_t>(std::find(kinds.begin(), kinds.end(), op.kind) - kinds.begin());
    chart.bars.push_back({rows[op.lane], kind, execution.start_seconds, execution.end_seconds,
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
    if (largest[c] > 0) chart.series.push_back({std::string(core::category_names[c]), {}, static_cast<uint32_t>(c)});
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

std::string summary_table(const StagePlan& stage) {
  std::vector<std::vector<std::string>> rows;
  for (size_t t = 0; t < core::tier_count; ++t) {
    const TierPlan& tier = stage.compiled.plan.tiers[t];
    if (tier.peak_bytes == 0) continue;
    rows.push_back({std::string(core::tier_names[t]), std::to_string(tier.peak_bytes),
                    core::format_bytes(tier.peak_bytes), tier.peak_phase, tier.peak_op});
  }
  return draw::table({"tier", "planned peak, bytes", "", "phase", "op"}, rows);
}

// "Stage 1, ranks 2 to 3: layers 3–5".
std::string heading(const StagePlan& stage) {
  const Layout& layout = stage.compiled.layout;
  if (!layout.stage.pipelined()) return fmt::format("Ranks {} to {}", stage.first, stage.last);
  return fmt::format("Stage {}, ranks {} to {}: {}", layout.stage.index, stage.first, stage.last,
                     blocks_text(*layout.model));
}

std::string times(const Plan& plan, const StagePlan& stage) {
  if (!stage.step)
    return "The axes count ops in program order, with two turns of what repeats; --cluster gives them time.";
  return draw::escaped(fmt::format(
      "{}: {:.4g} s a step, of which computation waits {:.4g} s for communication; a rank computes nothing in {:.1f} % "
      "of it.",
      plan.cluster->name, stage.step->seconds, stage.step->exposed_comm_seconds, 100 * stage.idle_share()));
}

// The steps of a pipeline are of one clock, so that its stages stand below each other.
std::vector<std::vector<SimulatedOp>> timelines(const Plan& plan) {
  std::vector<std::vector<SimulatedOp>> all;
  std::vector<SimulatedStage> stages;
  for (const StagePlan& stage : plan.stages) {
    const Compiled& compiled = stage.compiled;
    stages.push_back({&compiled.set, &compiled.set.program("step"), &compiled.layout});
    if (!plan.cluster) all.push_back(in_program_order(*stages.back().program));
  }
  if (!plan.cluster) return all;
  for (Simulation& step : simulate(stages, *plan.cluster, Wanted::timeline)) all.push_back(std::move(step.timeline));
  return all;
}

}  // namespace

std::string plan_page(const Plan& plan, const StagesShown& shown) {
  const auto all = timelines(plan);
  const bool pipelined = plan.layout().stage.pipelined();
  std::vector<std::string> parts;
  if (pipelined) parts = step_overview(plan, all);
  const std::vector<OpKind> kinds = kinds_of(plan);
  const std::vector<size_t> stages = shown.stage ? stages_told(plan, shown) : stages_listed(plan, shown.all);
  for (const size_t s : stages) {
    const StagePlan& stage = plan.stages[s];
    const Program& program = stage.compiled.set.program("step");
    const auto& timeline = all[s];
    const draw::Unit unit = stage.step ? draw::Unit::seconds : draw::Unit::plain;
    const bool open = stages.size() == 1 || s == fullest_stage(plan);
    if (pipelined) parts.push_back(fmt::format("<details{}><summary>", open ? " open" : ""));
    parts.push_back(fmt::format("<h2>{}</h2>\n", draw::escaped(heading(stage))));
    if (pipelined) parts.emplace_back("</summary>");
    parts.push_back(fmt::format("<p>{}</p>\n", times(plan, stage)));
    parts.push_back(summary_table(stage));
    for (const PagePart& part : parts_of(timeline)) {
      parts.push_back(lanes_chart(stage, program, timeline, part, unit, kinds));
      for (size_t t = 0; t < core::tier_count; ++t) {
        if (stage.compiled.plan.tiers[t].peak_bytes == 0) continue;
        const auto tier = static_cast<core::Tier>(t);
        const auto points = memory_over_time(stage.compiled.set, program, timeline, tier);
        parts.push_back(memory_chart(program, points, part, unit, tier, plan.limits));
      }
    }
    if (pipelined) parts.emplace_back("</details>\n");
  }
  if (stages.size() < plan.stages.size()) {
    parts.emplace_back("<p>Other stages: zrt plan --draw FILE --stage N, or --stage all.</p>\n");
  }
  return draw::page(
      fmt::format("Plan of {} parameters on {} ranks", core::format_count(plan.parameters), plan.layout().mesh.world()),
      parts);
}

}  // namespace zrt::runtime

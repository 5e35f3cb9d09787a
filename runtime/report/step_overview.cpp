#include "runtime/report/step_overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/plan/group_ways.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/draw/svg.h"

namespace zrt::runtime {
namespace {

constexpr size_t drawn_bars = 3000;  // of a part of the step

enum Work : uint32_t { forward, again, backward, weight_gradients, updates };
const std::vector<std::string> work_names{"forward", "forward again", "backward", "gradients of weights", "updates"};

Work work_of(const Op& op) {
  if (op.kind == OpKind::forward) return forward;
  if (op.kind == OpKind::recompute) return again;
  if (op.kind == OpKind::backward) return op.half == models::Half::weight ? weight_gradients : backward;
  return updates;
}

std::string stage_name(size_t stage) {
  return fmt::format("stage {}", stage);
}

// Makes one bar of what the compute lane does for one microbatch without a gap.
void add_bars(const StagePlan& stage, const std::vector<SimulatedOp>& timeline, uint32_t row,
              std::vector<draw::Bar>& bars) {
  const Program& program = stage.compiled.set.program("step");
  const size_t before = bars.size();
  for (const SimulatedOp& execution : timeline) {
    const Op& op = program.ops[execution.op];
    if (op.lane != 0 || execution.end_seconds <= execution.start_seconds) continue;
    const Work work = work_of(op);
    const std::string text =
        work == updates ? work_names[work]
                        : fmt::format("{}, microbatch {}", work_names[work], op.microbatch.at(execution.iteration));
    const double gap = 1e-6 * stage.step->seconds;
    if (bars.size() > before && bars.back().text == text && execution.start_seconds - bars.back().end <= gap) {
      bars.back().end = execution.end_seconds;
    } else {
      bars.push_back({row, work, execution.start_seconds, execution.end_seconds, text});
    }
  }
}

draw::LaneChart chart_of(const std::string& title, size_t stages) {
  draw::LaneChart chart;
  chart.title = title;
  for (size_t s = 0; s < stages; ++s) chart.lanes.push_back(stage_name(s));
  return chart;
}

// The chart is of the whole step; of a long one there are two, of its start and its end, as turns between are alike.
std::vector<std::string> pipeline_charts(const Plan& plan, const std::vector<std::vector<SimulatedOp>>& timelines) {
  std::vector<draw::Bar> bars;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    add_bars(plan.stages[s], timelines[s], static_cast<uint32_t>(s), bars);
  }
  std::sort(bars.begin(), bars.end(), [](const draw::Bar& a, const draw::Bar& b) { return a.start < b.start; });
  const double end = plan.seconds_per_step();
  struct Part {
    std::string title;
    double from, to;
  };
  std::vector<Part> parts{{"the step", 0, end}};
  if (bars.size() > 2 * drawn_bars) {
    parts = {{"the start of the step", 0, bars[drawn_bars].start},
             {"the end of the step", bars[bars.size() - drawn_bars].start, end}};
  }
  std::vector<std::string> charts;
  for (const Part& part : parts) {
    draw::LaneChart chart = chart_of("All stages: " + part.title, plan.stages.size());
    chart.x_start = part.from, chart.x_end = part.to;
    chart.kinds = work_names;
    for (const draw::Bar& bar : bars) {
      if (bar.end > part.from && bar.start < part.to) chart.bars.push_back(bar);
    }
    charts.push_back(draw::draw_lanes(chart));
  }
  return charts;
}

// The chart has each stage's bytes at its peak, by category, and is as wide as the limit where that is near.
std::string memory_chart(const Plan& plan, core::Tier tier) {
  const auto t = static_cast<size_t>(tier);
  const std::string name(core::tier_names[t]);
  draw::LaneChart chart = chart_of("", plan.stages.size());
  chart.x_unit = draw::Unit::bytes;
  chart.kinds.assign(core::category_names.begin(), core::category_names.end());
  double highest = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const TierPlan& own = plan.stages[s].compiled.plan.tiers[t];
    double at = 0;
    for (size_t c = 0; c < core::category_count; ++c) {
      const auto bytes = static_cast<double>(own.categories[c]);
      if (bytes > 0) {
        chart.bars.push_back({static_cast<uint32_t>(s), static_cast<uint32_t>(c), at, at + bytes,
                              fmt::format("{} of {}", chart.kinds[c], chart.lanes[s])});
      }
      at += bytes;
    }
    highest = std::max(highest, at);
  }
  const auto& limit = plan.limits.tiers[t];
  chart.title = fmt::format("Bytes of the {} tier at each stage's peak", name);
  if (limit) {
    const auto most = static_cast<double>(limit->bytes);
    const bool near = most < 3 * highest;
    if (near) chart.x_end = std::max(most, highest);
    chart.title +=
        fmt::format("; {} {} ({})", near && highest <= most ? "the right edge is the limit," : "the limit is",
                    core::format_bytes(limit->bytes), limit->from);
  }
  return draw::draw_lanes(chart);
}

std::string seconds_chart(const Plan& plan) {
  draw::LaneChart chart = chart_of("Where the seconds of a step go", plan.stages.size());
  chart.kinds = {"computes", "waits for communication and for what other stages send", "waits for copies",
                 "waits for updates on the host, or has ended"};
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Simulation& step = *plan.stages[s].step;
    const double busy = step.busy_seconds.front();
    const std::array<double, 4> seconds{busy, step.exposed_comm_seconds, step.exposed_io_seconds,
                                        step.seconds - busy - step.exposed_comm_seconds - step.exposed_io_seconds};
    double at = 0;
    for (uint32_t k = 0; k < seconds.size(); ++k) {
      // The last is what the others leave, and may be a rounding.
      if (seconds[k] <= 1e-9 * step.seconds) continue;
      chart.bars.push_back({static_cast<uint32_t>(s), k, at, at + seconds[k], chart.lanes[s] + " " + chart.kinds[k]});
      at += seconds[k];
    }
  }
  return draw::draw_lanes(chart);
}

}  // namespace

std::vector<std::string> step_overview(const Plan& plan, const std::vector<std::vector<SimulatedOp>>& timelines) {
  std::vector<std::string> parts;
  if (plan.cluster) {
    for (std::string& chart : pipeline_charts(plan, timelines)) parts.push_back(std::move(chart));
    parts.push_back(seconds_chart(plan));
  }
  for (size_t t = 0; t < core::tier_count; ++t) {
    const bool used = std::any_of(plan.stages.begin(), plan.stages.end(),
                                  [&](const StagePlan& stage) { return stage.compiled.plan.tiers[t].peak_bytes > 0; });
    if (used) parts.push_back(memory_chart(plan, static_cast<core::Tier>(t)));
  }
  if (const std::string groups = group_ways_text(plan); !groups.empty()) {
    parts.push_back(fmt::format("<h2>Groups of ranks on hosts of {}</h2>\n<pre>{}</pre>\n",
                                draw::escaped(plan.cluster->name), draw::escaped(groups)));
  }
  return parts;
}

}  // namespace zrt::runtime

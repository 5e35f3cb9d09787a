#include <algorithm>

#include "runtime/report/decimate.h"
#include "runtime/report/draw/page.h"
#include "runtime/report/draw/svg.h"
#include "runtime/report/sections.h"

namespace zrt::runtime::report {
namespace {

constexpr size_t most_points = 1000;  // of a series: a chart is about as many pixels wide

struct Curve {
  std::string name;
  double StepRow::*value;
};

class Charts {
 public:
  explicit Charts(const RunData& run) : run_(run) {
    first_ = last_ = run.steps.empty() ? 1 : static_cast<double>(run.steps.front().step);
    if (!run.steps.empty()) last_ = static_cast<double>(run.steps.back().step);
    for (const EvaluationRow& row : run.evaluations) last_ = std::max(last_, static_cast<double>(row.step));
  }

  // Nothing where no step has any of the values.
  void add(const std::string& title, draw::Unit unit, const std::vector<Curve>& curves) {
    Points points;
    for (const StepRow& row : run_.steps) points.x.push_back(static_cast<double>(row.step));
    std::vector<std::string> names;
    for (const Curve& curve : curves) {
      names.push_back(curve.name);
      points.y.emplace_back();
      for (const StepRow& row : run_.steps) points.y.back().push_back(row.*curve.value);
    }
    draw(title, unit, names, std::move(points));
  }

  void draw(const std::string& title, draw::Unit unit, const std::vector<std::string>& names, Points points) {
    const bool any = std::any_of(points.y.begin(), points.y.end(), [](const std::vector<double>& y) {
      return std::any_of(y.begin(), y.end(), [](double v) { return std::isfinite(v); });
    });
    if (!any) return;
    points = decimate(std::move(points), most_points);
    draw::ValueChart chart;
    chart.title = title;
    chart.y_unit = unit;
    // All charts have one axis, so that they zoom together.
    chart.x_start = first_ - 1;
    chart.x_end = last_ > first_ ? last_ : first_ + 1;
    chart.x = std::move(points.x);
    chart.labels = std::move(points.labels);
    for (size_t s = 0; s < names.size(); ++s) chart.series.push_back({names[s], std::move(points.y[s])});
    parts_.push_back(draw::draw_values(chart));
  }

  Parts take() { return std::move(parts_); }

 private:
  const RunData& run_;
  double first_ = 1, last_ = 1;
  Parts parts_;
};

bool changes(const RunData& run, double StepRow::*value) {
  return std::any_of(run.steps.begin(), run.steps.end(),
                     [&](const StepRow& row) { return row.*value != run.steps.front().*value; });
}

}  // namespace

Parts step_charts(const RunData& run) {
  using draw::Unit;
  Charts charts(run);
  charts.add("Training loss (nats per token) over steps", Unit::plain, {{"loss", &StepRow::loss}});
  Points held_out;
  held_out.y.resize(1);
  for (const EvaluationRow& row : run.evaluations) {
    held_out.x.push_back(static_cast<double>(row.step));
    held_out.y[0].push_back(row.loss);
  }
  charts.draw("Held-out loss (nats per token) over steps", Unit::plain, {"held-out loss"}, std::move(held_out));
  charts.add("Throughput (tokens per second, all ranks)", Unit::plain,
             {{"tokens per second", &StepRow::tokens_per_second}});
  charts.add("Time of a step, and what of it rank 0's computation stood still for communication and for copies",
             Unit::seconds,
             {{"step", &StepRow::step_seconds},
              {"exposed communication", &StepRow::exposed_comm_seconds},
              {"exposed copies", &StepRow::exposed_io_seconds}});
  charts.add("Learning rate", Unit::plain, {{"learning rate", &StepRow::lr}});
  charts.add("Gradient norm, before clipping", Unit::plain, {{"gradient norm", &StepRow::grad_norm}});
  if (changes(run, &StepRow::loss_scale)) {
    charts.add("Loss scale", Unit::plain, {{"loss scale", &StepRow::loss_scale}});
  }
  // Models without experts have no such lines, and no charts of them.
  charts.add("Load of experts (1: even): the most that one was picked, and the balance loss", Unit::plain,
             {{"largest load", &StepRow::expert_peak}, {"balance", &StepRow::router_balance}});
  if (changes(run, &StepRow::dropped_choices)) {
    charts.add("Picks of experts that were full", Unit::plain, {{"dropped", &StepRow::dropped_choices}});
  }
  return charts.take();
}

}  // namespace zrt::runtime::report

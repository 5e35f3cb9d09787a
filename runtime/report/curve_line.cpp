#include "runtime/report/curve_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace zrt::runtime::report {
namespace {

constexpr const char* bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr size_t heights = std::size(bars);

// The mean of the finite losses of steps `begin` up to `end`; NaN where there is none.
double mean_loss(const std::vector<StepRow>& steps, size_t begin, size_t end) {
  double sum = 0;
  size_t n = 0;
  for (size_t i = begin; i < end; ++i) {
    if (!std::isfinite(steps[i].loss)) continue;
    sum += steps[i].loss;
    ++n;
  }
  return n == 0 ? NAN : sum / static_cast<double>(n);
}

}  // namespace

std::string curve_line(const RunData& run, size_t width) {
  if (run.steps.empty()) return "";
  const size_t count = std::min(width, run.steps.size());
  std::vector<double> means;
  double least = INFINITY, most = -INFINITY;
  for (size_t i = 0; i < count; ++i) {
    means.push_back(mean_loss(run.steps, i * run.steps.size() / count, (i + 1) * run.steps.size() / count));
    if (!std::isfinite(means.back())) continue;
    least = std::min(least, means.back());
    most = std::max(most, means.back());
  }
  std::string drawn;
  for (const double mean : means) {
    if (!std::isfinite(mean)) {
      drawn += ' ';
      continue;
    }
    const double height = most > least ? (mean - least) / (most - least) : 0;
    drawn += bars[std::min(heights - 1, static_cast<size_t>(height * heights))];
  }
  std::string text = fmt::format("loss {:.4g} {} {:.4g} over steps {} to {}", run.steps.front().loss, drawn,
                                 run.steps.back().loss, run.steps.front().step, run.steps.back().step);
  if (!run.evaluations.empty()) {
    const EvaluationRow& last = run.evaluations.back();
    text += fmt::format("; held out {:.4g}", last.loss);
    if (std::isfinite(last.bits_per_byte)) text += fmt::format(", {:.4g} bits per byte", last.bits_per_byte);
  }
  return text;
}

}  // namespace zrt::runtime::report

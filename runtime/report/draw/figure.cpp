#include "runtime/report/draw/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace zrt::runtime::draw {
namespace {

constexpr int width = 860, height = 420, figure_left = 84, figure_right = 24, top = 74, bottom = 58;  // pixels
constexpr int ticks = 5;
constexpr std::array<const char*, 6> line_colours{"#2f4b7c", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2"};

// From values to pixels.
struct Axes {
  double x_low, x_high, y_high;
  double x(double value) const {
    return figure_left + (width - figure_left - figure_right) * (value - x_low) / (x_high - x_low);
  }
  double y(double value) const { return height - bottom - (height - top - bottom) * value / y_high; }
};

Axes axes_of(const Figure& figure) {
  double high = 0;
  for (const FigureLine& line : figure.lines) {
    for (const std::vector<double>* values : {&line.y, &line.high}) {
      for (const double value : *values) high = std::isfinite(value) ? std::max(high, value) : high;
    }
  }
  const double from = figure.x.empty() ? 0 : figure.x.front(), to = figure.x.empty() ? 1 : figure.x.back();
  return {from, to > from ? to : from + 1, high > 0 ? 1.08 * high : 1};
}

std::string text_at(double x, double y, const char* anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string grid(const Figure& figure, const Axes& axes) {
  std::string text;
  for (int i = 0; i <= ticks; ++i) {
    const double value = axes.y_high * i / ticks, y = axes.y(value);
    text += fmt::format("<path d=\"M{},{:.1f}H{}\" stroke=\"#ddd\"/>\n", figure_left, y, width - figure_right);
    text += text_at(figure_left - 8, y + 4, "end", number_text(value, figure.y_unit));
    const double at = axes.x_low + (axes.x_high - axes.x_low) * i / ticks;
    text += text_at(axes.x(at), height - bottom + 18, "middle", number_text(at, figure.x_unit));
  }
  text += text_at((figure_left + width - figure_right) / 2.0, height - 14, "middle", figure.x_name);
  text += fmt::format("<text transform=\"translate(16,{}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                      (top + height - bottom) / 2, escaped(figure.y_name));
  return text;
}

std::string line_of(const Figure& figure, const FigureLine& line, const Axes& axes, const char* colour) {
  std::string path, marks;
  bool open = false;
  for (size_t i = 0; i < line.y.size(); ++i) {
    if (!std::isfinite(line.y[i])) {
      open = false;
      continue;
    }
    const double x = axes.x(figure.x[i]), y = axes.y(line.y[i]);
    path += fmt::format("{}{:.1f},{:.1f}", open ? 'L' : 'M', x, y);
    open = true;
    marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x, y, colour);
    if (line.low.empty()) continue;
    marks += fmt::format("<path d=\"M{0:.1f},{1:.1f}V{2:.1f}\" stroke=\"{3}\"/>\n", x, axes.y(line.low[i]),
                         axes.y(line.high[i]), colour);
  }
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n{}", path, colour, marks);
}

}  // namespace

std::string draw_figure(const Figure& figure) {
  const Axes axes = axes_of(figure);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">{2}\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width, height, figure_mark);
  text += fmt::format("<text x=\"{}\" y=\"24\" font-size=\"15\">{}</text>\n", figure_left, escaped(figure.title));
  text += grid(figure, axes);
  double beside = figure_left;
  for (size_t i = 0; i < figure.lines.size(); ++i) {
    const char* colour = line_colours[i % line_colours.size()];
    text += line_of(figure, figure.lines[i], axes, colour);
    text += fmt::format("<rect x=\"{:.1f}\" y=\"44\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", beside, colour);
    text += text_at(beside + 18, 54, "start", figure.lines[i].name);
    beside += 40 + 7.0 * static_cast<double>(figure.lines[i].name.size());
  }
  return text + "</svg>\n";
}

}  // namespace zrt::runtime::draw

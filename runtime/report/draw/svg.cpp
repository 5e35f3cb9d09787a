#include "runtime/report/draw/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/ledger.h"

namespace zrt::runtime::draw {
namespace {

// Pixels. The plot is an SVG of its own, stretched along x, so that zooming is a change of its view.
constexpr int left = 150, plot_width = 1000, right = 20, lane_height = 26, value_height = 220, axis_height = 24;

// Colours that neighbours in a stack tell apart, also for colour-blind readers.
constexpr std::array<const char*, 12> colours{"#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948",
                                              "#b07aa1", "#ff9da7", "#9c755f", "#bab0ac", "#2f4b7c", "#a05195"};
const char* colour(size_t i) {
  return colours[i % colours.size()];
}

std::string coordinate(double value) {
  return fmt::format("{:.6g}", std::round(value * 1000) / 1000);
}

const char* unit_name(Unit unit) {
  return unit == Unit::bytes ? "bytes" : unit == Unit::seconds ? "seconds" : "plain";
}

struct Name {
  std::string text;
  size_t colour;
};

// The frame of a chart: title, legend, axis below. `inside` is what is drawn in the stretched plot, `beside` what
// stands left of it; `data` are attributes for the script.
std::string frame(const std::string& title, const std::vector<Name>& names, double from, double to, Unit unit,
                  int height, const std::string& data, const std::string& inside, const std::string& beside) {
  std::string text = fmt::format("<h2>{}</h2>\n<p class=\"legend\">", escaped(title));
  for (const Name& name : names) {
    text += fmt::format("<span><i style=\"background:{}\"></i>{}</span>", colour(name.colour), escaped(name.text));
  }
  text += fmt::format(
      "</p>\n<svg class=\"chart\" viewBox=\"0 0 {} {}\" data-from=\"{}\" data-to=\"{}\" data-unit=\"{}\"{}>\n",
      left + plot_width + right, height + axis_height, from, to, unit_name(unit), data);
  text += beside;
  text += fmt::format(
      "<svg class=\"plot\" x=\"{}\" y=\"0\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" "
      "preserveAspectRatio=\"none\">\n<rect class=\"ground\" width=\"{}\" height=\"{}\"/>\n{}</svg>\n",
      left, plot_width, height, plot_width, height, plot_width, height, inside);
  constexpr int ticks = 5;
  for (int i = 0; i <= ticks; ++i) {
    text += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
                        left + plot_width * i / ticks, height + 16, i == ticks ? "end" : "middle",
                        number_text(from + (to - from) * i / ticks, unit));
  }
  return text + "</svg>\n";
}

struct Scale {
  double low, high;
  std::string y(double value) const { return coordinate(value_height * (1 - (value - low) / (high - low))); }
};

// The outline of a series from its values and, when stacked, of those below it.
std::string path(const ValueChart& chart, const std::vector<double>& top, const std::vector<double>* bottom,
                 const Scale& scale) {
  const double width = chart.x_end - chart.x_start;
  const auto x = [&](size_t i) { return coordinate(plot_width * (chart.x[i] - chart.x_start) / width); };
  std::string text;
  bool open = false;
  for (size_t i = 0; i < top.size(); ++i) {
    if (!std::isfinite(top[i])) {
      open = false;
      continue;
    }
    if (open && chart.steps) text += fmt::format("H{}", x(i));
    text += fmt::format("{}{},{}", open ? 'L' : 'M', x(i), scale.y(top[i]));
    open = true;
  }
  if (bottom == nullptr) return text;
  for (size_t i = bottom->size(); i-- > 0;) {
    text += fmt::format("L{},{}", x(i), scale.y((*bottom)[i]));
    if (chart.steps && i > 0) text += fmt::format("V{}", scale.y((*bottom)[i - 1]));
  }
  return text + "Z";
}

// A value between gaps has no line to either side: dots, which a round end of a line of no length is.
std::string lone_points(const ValueChart& chart, const std::vector<double>& y, const Scale& scale) {
  std::string text;
  for (size_t i = 0; i < y.size(); ++i) {
    const bool before = i > 0 && std::isfinite(y[i - 1]), after = i + 1 < y.size() && std::isfinite(y[i + 1]);
    if (!std::isfinite(y[i]) || before || after) continue;
    const double x = plot_width * (chart.x[i] - chart.x_start) / (chart.x_end - chart.x_start);
    text += fmt::format("M{},{}h0", coordinate(x), scale.y(y[i]));
  }
  return text;
}

Scale scale_of(const ValueChart& chart) {
  double low = chart.stacked || chart.y_unit == Unit::bytes ? 0 : INFINITY, high = chart.limit.value_or(-INFINITY);
  std::vector<double> sums(chart.x.size(), 0);
  for (const Series& series : chart.series) {
    for (size_t i = 0; i < series.y.size(); ++i) {
      if (!std::isfinite(series.y[i])) continue;
      sums[i] += series.y[i];
      high = std::max(high, chart.stacked ? sums[i] : series.y[i]);
      low = std::min(low, series.y[i]);
    }
  }
  if (!std::isfinite(low) || !std::isfinite(high)) return {0, 1};
  const double around = low == 0 ? 0.5 : std::abs(low) / 2;  // of a single value
  return high > low ? Scale{low, high + 0.05 * (high - low)} : Scale{low - around, low + around};
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string number_text(double value, Unit unit) {
  if (unit == Unit::bytes && value >= 0 && value < 0x1p63) return core::format_bytes(static_cast<uint64_t>(value));
  // Steps and tokens per second: whole numbers as long as they are readable.
  if (unit != Unit::seconds && std::abs(value) >= 1e4 && std::abs(value) < 1e7) return fmt::format("{:.0f}", value);
  if (unit != Unit::seconds) return fmt::format("{:.4g}", value);
  const double size = std::abs(value);
  if (size == 0 || size >= 1) return fmt::format("{:.4g} s", value);
  if (size >= 1e-3) return fmt::format("{:.4g} ms", value * 1e3);
  return fmt::format("{:.4g} µs", value * 1e6);
}

std::string draw_lanes(const LaneChart& chart) {
  const int height = lane_height * std::max<int>(1, static_cast<int>(chart.lanes.size()));
  std::string beside, inside;
  for (size_t i = 0; i < chart.lanes.size(); ++i) {
    beside += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 8,
                          lane_height * static_cast<int>(i) + 17, escaped(chart.lanes[i]));
  }
  const double start = chart.x_start;
  double end = chart.x_end;
  if (!(end > start)) {
    for (const Bar& bar : chart.bars) end = std::max(end, bar.end);
    if (!(end > start)) end = start + 1;
  }
  for (const Bar& bar : chart.bars) {
    inside +=
        fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" data-t=\"{}\"/>\n",
                    coordinate((bar.start - start) / (end - start) * plot_width), lane_height * bar.lane + 3,
                    coordinate((bar.end - bar.start) / (end - start) * plot_width), lane_height - 6, colour(bar.kind),
                    escaped(fmt::format("{}\n{} from {}", bar.text, number_text(bar.end - bar.start, chart.x_unit),
                                        number_text(bar.start, chart.x_unit))));
  }
  std::vector<Name> names;  // of the kinds that occur
  for (size_t k = 0; k < chart.kinds.size(); ++k) {
    const auto of_kind = [&](const Bar& bar) { return bar.kind == k; };
    if (std::any_of(chart.bars.begin(), chart.bars.end(), of_kind)) names.push_back({chart.kinds[k], k});
  }
  return frame(chart.title, names, start, end, chart.x_unit, height, "", inside, beside);
}

std::string draw_values(const ValueChart& chart) {
  ValueChart fitted = chart;
  if (!(chart.x_end > chart.x_start)) {
    fitted.x_start = chart.x.empty() ? 0 : chart.x.front();
    fitted.x_end = std::max(fitted.x_start + 1, chart.x.empty() ? 0 : chart.x.back());
  }
  const Scale scale = scale_of(chart);
  std::string inside, beside;
  std::vector<double> below(chart.x.size(), 0);
  std::vector<Name> names;
  nlohmann::json values{
      {"x", chart.x}, {"labels", chart.labels}, {"series", nlohmann::json::array()}, {"unit", unit_name(chart.y_unit)}};
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    const size_t number = series.colour.value_or(s);
    names.push_back({series.name, number});
    values["series"].push_back({{"name", series.name}, {"y", series.y}});
    std::vector<double> top = series.y;
    if (chart.stacked) {
      for (size_t i = 0; i < top.size(); ++i) top[i] += below[i];
    }
    inside += fmt::format("<path d=\"{}\" {}=\"{}\"/>\n", path(fitted, top, chart.stacked ? &below : nullptr, scale),
                          chart.stacked ? "fill" : "class=\"line\" stroke", colour(number));
    if (chart.stacked) {
      below = std::move(top);
    } else if (const std::string dots = lone_points(fitted, top, scale); !dots.empty()) {
      inside += fmt::format("<path class=\"line dots\" d=\"{}\" stroke=\"{}\"/>\n", dots, colour(number));
    }
  }
  if (chart.limit) {
    inside += fmt::format("<path class=\"limit\" d=\"M0,{0}H{1}\" data-t=\"{2}\"/>\n", scale.y(*chart.limit),
                          plot_width, escaped(chart.limit_name + " " + number_text(*chart.limit, chart.y_unit)));
  }
  for (int i = 0; i <= 2; ++i) {
    beside += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 8,
                          i == 2 ? 11 : value_height - value_height * i / 2,
                          number_text(scale.low + (scale.high - scale.low) * i / 2, chart.y_unit));
  }
  return frame(chart.title, names, fitted.x_start, fitted.x_end, chart.x_unit, value_height,
               fmt::format(" data-values=\"{}\"",
                           escaped(values.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))),
               inside, beside);
}

}  // namespace zrt::runtime::draw

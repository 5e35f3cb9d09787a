// A chart of lines as an SVG file of its own, for pages that show images.
#pragma once
#include <string>
#include <vector>

#include "runtime/report/draw/svg.h"

namespace zrt::runtime::draw {

// Tells a figure of zrt's from other files; stands near its begin.
inline constexpr const char* figure_mark = "<!-- drawn by zrt -->";

struct FigureLine {
  std::string name;
  std::vector<double> y;          // one per x; NaN: no point here
  std::vector<double> low, high;  // of every point, drawn as a bar; may be empty
};

struct Figure {
  std::string title, x_name, y_name;
  Unit x_unit = Unit::plain, y_unit = Unit::plain;
  std::vector<double> x;  // ascending
  std::vector<FigureLine> lines;
};

// The y axis begins at 0. Points are joined where both neighbours exist.
std::string draw_figure(const Figure& figure);

}  // namespace zrt::runtime::draw

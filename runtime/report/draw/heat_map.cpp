#include "runtime/report/draw/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/report/draw/svg.h"

namespace zrt::runtime::draw {
namespace {

// Pixels; those of lanes (svg.cpp), so that names stand below each other.
constexpr int names_width = 150, cells_width = 1000, beside_cells = 20, row_height = 18, below_cells = 36;

using Colour = std::array<double, 3>;
constexpr Colour blue{33, 102, 172}, white{247, 247, 247}, red{178, 24, 43};

std::string heat_colour(double value, double most) {
  const double share = std::clamp(value <= 1 ? 1 - value : (value - 1) / (most - 1), 0.0, 1.0);
  const Colour& end = value <= 1 ? blue : red;
  std::array<int, 3> mixed{};
  for (size_t i = 0; i < mixed.size(); ++i) {
    mixed[i] = static_cast<int>(std::lround(white[i] + share * (end[i] - white[i])));
  }
  return fmt::format("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2]);
}

std::string key_entry(double value, double most, const char* behind) {
  return fmt::format("<span><i style=\"background:{}\"></i>{}{}</span>", heat_colour(value, most),
                     number_text(value, Unit::plain), behind);
}

}  // namespace

std::string draw_heat_map(const HeatMap& map) {
  size_t columns = 1;
  for (const std::vector<double>& row : map.values) columns = std::max(columns, row.size());
  const double width = static_cast<double>(cells_width) / static_cast<double>(columns);
  const int height = row_height * static_cast<int>(map.values.size());
  std::string text =
      fmt::format("<h2>{}</h2>\n<p class=\"legend\">{}{}{}{}{}</p>\n", escaped(map.title), key_entry(0, map.most, ""),
                  key_entry(0.5, map.most, ""), key_entry(1, map.most, ""), key_entry((1 + map.most) / 2, map.most, ""),
                  key_entry(map.most, map.most, " or more"));
  text += fmt::format("<svg class=\"heat\" viewBox=\"0 0 {} {}\">\n", names_width + cells_width + beside_cells,
                      height + below_cells);
  for (size_t r = 0; r < map.values.size(); ++r) {
    const int y = row_height * static_cast<int>(r);
    text += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", names_width - 8, y + 13,
                        escaped(map.rows[r]));
    for (size_t c = 0; c < map.values[r].size(); ++c) {
      const double value = map.values[r][c];
      if (!std::isfinite(value)) continue;
      text += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"><title>{}, {} {}: "
          "{}</title></rect>\n",
          names_width + width * static_cast<double>(c), y + 1, width, row_height - 2, heat_colour(value, map.most),
          escaped(map.rows[r]), escaped(map.x_name), c, number_text(value, Unit::plain));
    }
  }
  const size_t step = std::max<size_t>(1, (columns + 15) / 16);  // of numbers below columns
  for (size_t c = 0; c < columns; c += step) {
    text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                        names_width + width * (static_cast<double>(c) + 0.5), height + 14, c);
  }
  text += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", names_width + cells_width / 2,
                      height + 30, escaped(map.x_name));
  return text + "</svg>\n";
}

}  // namespace zrt::runtime::draw

// Charts as SVG, for pages that are one file and need no network: ops on lanes over time, and values over time, stacked
// or as lines. The script of page.h shows what the pointer is over; without it the charts still draw.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zrt::runtime::draw {

// The form in which the numbers of an axis are written: "1.5 GiB", "12 ms", or "%.4g".
enum class Unit : uint8_t { plain, bytes, seconds };
std::string number_text(double value, Unit unit);

struct Bar {
  uint32_t lane = 0, kind = 0;  // indexes into the chart's lanes and kinds; a kind is a colour
  double start = 0, end = 0;
  std::string text;  // shown when the pointer is over it
};

// Rows of bars over a common axis.
struct LaneChart {
  std::string title;
  Unit x_unit = Unit::seconds;
  double x_start = 0, x_end = 0;  // where x_end is not above x_start: until the last bar ends
  std::vector<std::string> lanes, kinds;
  std::vector<Bar> bars;
};
std::string draw_lanes(const LaneChart& chart);

struct Series {
  std::string name;
  std::vector<double> y;  // one per x; NaN leaves a gap (lines only)
  std::optional<uint32_t> colour =
      {};  // the same number is the same colour in all charts; by default the series' place
};

struct ValueChart {
  std::string title;
  Unit x_unit = Unit::plain, y_unit = Unit::plain;
  double x_start = 0, x_end = 0;
  std::vector<double> x;            // ascending
  std::vector<std::string> labels;  // of every x, shown under the pointer; may be empty
  std::vector<Series> series;
  bool stacked = false;              // areas on top of each other, else lines from 0 or the smallest value
  bool steps = false;                // a value holds until the next x, else straight lines
  std::optional<double> limit = {};  // a line across, with `limit_name`
  std::string limit_name;
};
std::string draw_values(const ValueChart& chart);

// Escapes text for elements and attributes.
std::string escaped(std::string_view text);

}  // namespace zrt::runtime::draw

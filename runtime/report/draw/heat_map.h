// Values of a table as colours, for pages of charts (svg.h). What a cell holds is shown when the pointer is over it.
#pragma once
#include <string>
#include <vector>

namespace zrt::runtime::draw {

// Values around 1: what is less is blue, what is more is red, from `most` on in one colour.
struct HeatMap {
  std::string title, x_name;
  std::vector<std::string> rows;            // names
  std::vector<std::vector<double>> values;  // by row, which may differ in length
  double most = 2;                          // above 1
};
std::string draw_heat_map(const HeatMap& map);

}  // namespace zrt::runtime::draw

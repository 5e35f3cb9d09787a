// Fewer points for a chart, such that no spike is lost.
#pragma once
#include <string>
#include <vector>

namespace zrt::runtime::report {

struct Points {
  std::vector<double> x;               // ascending
  std::vector<std::vector<double>> y;  // by series, one per x; NaN for none
  std::vector<std::string> labels;     // of every x that stands for several; "" for others
};

// At most `most` points (at least 2). Where there are more, neighbours are replaced by two: the smallest and the
// largest value of each series among them, in the order in which they come. What is not finite is a gap only where all
// neighbours are.
Points decimate(Points points, size_t most);

}  // namespace zrt::runtime::report

#include "models/llama/rotary_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zrt::models {

std::vector<double> rotary_frequencies(int64_t width, double theta, const RopeScaling& scaling) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < width; i += 2) {
    const double plain = std::pow(theta, -static_cast<double>(i) / static_cast<double>(width));
    const double turns = static_cast<double>(scaling.original_positions) * plain / (2 * std::numbers::pi);
    const double kept =
        std::clamp((turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0, 1.0);
    frequencies.push_back(plain * (kept + (1 - kept) / scaling.factor));
  }
  return frequencies;
}

}  // namespace zrt::models

#include "models/llama/rotary_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zrt::models {
namespace {

using Rule = RopeScaling::Rule;

// A pair's number, as a fraction of one, that turns so often within the original positions.
double pair_that_turns(double times, double width, double theta, const RopeScaling& scaling) {
  const double positions = static_cast<double>(scaling.original_positions);
  return width * std::log(positions / (times * 2 * std::numbers::pi)) / (2 * std::log(theta));
}

// The share of each pair's own frequency in a blend with the stretched one.
class Kept {
 public:
  Kept(double width, double theta, const RopeScaling& scaling) : scaling_(scaling) {
    if (scaling.rule != Rule::yarn) return;
    first_ = pair_that_turns(scaling.beta_fast, width, theta, scaling);
    last_ = pair_that_turns(scaling.beta_slow, width, theta, scaling);
    if (scaling.truncate) first_ = std::floor(first_), last_ = std::ceil(last_);
    first_ = std::max(first_, 0.0), last_ = std::min(last_, width - 1);
    if (first_ == last_) last_ += 0.001;  // as transformers does
  }
  double of(double pair, double plain) const {
    switch (scaling_.rule) {
      case Rule::llama3: {
        const double turns = static_cast<double>(scaling_.original_positions) * plain / (2 * std::numbers::pi);
        const double low = scaling_.low_freq_factor, high = scaling_.high_freq_factor;
        return std::clamp((turns - low) / (high - low), 0.0, 1.0);
      }
      case Rule::yarn:
        return 1 - std::clamp((pair - first_) / (last_ - first_), 0.0, 1.0);
      case Rule::linear:
        return 0;
      case Rule::none:
      case Rule::dynamic:
        return 1;
    }
    return 1;
  }

 private:
  const RopeScaling& scaling_;
  double first_ = 0, last_ = 0;  // pairs between which yarn blends
};

// Grows beyond the original positions.
double dynamic_theta(double width, double theta, const RopeScaling& scaling, int64_t sequence) {
  const double original = static_cast<double>(scaling.original_positions);
  const double positions = std::max(static_cast<double>(sequence), original);
  const double longer = scaling.factor * positions / original - (scaling.factor - 1);
  return width > 2 ? theta * std::pow(longer, width / (width - 2)) : theta;
}

// The logarithm by which yarn makes attention sharper.
double sharpness(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

}  // namespace

std::vector<double> rotary_frequencies(int64_t width, double theta, const RopeScaling& scaling, int64_t sequence) {
  const auto wide = static_cast<double>(width);
  if (scaling.rule == Rule::dynamic) theta = dynamic_theta(wide, theta, scaling, sequence);
  const Kept kept(wide, theta, scaling);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < width; i += 2) {
    const double plain = std::pow(theta, -static_cast<double>(i) / wide);
    const double share = kept.of(static_cast<double>(i) / 2, plain);
    frequencies.push_back(plain * (share + (1 - share) / scaling.factor));
  }
  return frequencies;
}

double rotary_scale(const RopeScaling& scaling) {
  if (scaling.rule != Rule::yarn) return 1;
  if (scaling.attention_factor) return *scaling.attention_factor;
  if (scaling.mscale == 0 || scaling.mscale_all_dim == 0) return sharpness(scaling.factor, 1);
  return sharpness(scaling.factor, scaling.mscale) / sharpness(scaling.factor, scaling.mscale_all_dim);
}

}  // namespace zrt::models

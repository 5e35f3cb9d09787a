// The speeds at which the pairs of a head turn.
#pragma once
#include <vector>

#include "models/model.h"

namespace zrt::models {

// Radians per position of the width / 2 pairs: theta^(-2i / width), then stretched for sequences of so many positions.
std::vector<double> rotary_frequencies(int64_t width, double theta, const RopeScaling& scaling, int64_t sequence);
// Cosines and sines of positions are multiplied by it.
double rotary_scale(const RopeScaling& scaling);

}  // namespace zrt::models

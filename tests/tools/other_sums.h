// Bounds how far the loss of an fp32 run with AdamW lies from one that adds up in other orders, as on another tensor
// degree.
//
// Sums in other orders make a step's loss and gradients wrong by at most 2e-6 of their size in models as small as these
// (runtime/engine/tensor_numbers holds that against fp64). AdamW moves an element by about the rate, towards its
// gradient's sign. An element whose gradient g is wrong by d may move by 2 · rate in the other direction where d > g,
// and by rate · d / g elsewhere: that moves the loss by no more than 2 · rate · d in either case. Over n elements the d
// add up to at most sqrt(n) times their norm, which is 2e-6 of the gradient's.
#pragma once
#include <cmath>
#include <fstream>
#include <string>

#include "program.h"

namespace zrt::testing {

inline constexpr double sums_rounding = 2e-6;

// Bounds the difference of a run's loss, in training or on held-out text behind its last step. `folder` is the run's,
// `text` what it printed.
inline double other_sums_bound(const std::string& folder, const std::string& text, double rate) {
  const size_t end = text.find(" parameters in ");
  REQUIRE(end != std::string::npos);
  const double parameters = std::stod(text.substr(text.find_last_not_of("0123456789", end - 1) + 1));
  const nlohmann::json summary = read_json(folder + "/summary.json");
  double bound = sums_rounding * summary["final_loss"].get<double>();
  std::ifstream metrics(folder + "/metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    const nlohmann::json step = nlohmann::json::parse(line);
    if (!step.contains("grad_norm")) continue;
    bound += 2 * rate * std::sqrt(parameters) * sums_rounding * step["grad_norm"].get<double>();
  }
  return bound;
}

}  // namespace zrt::testing

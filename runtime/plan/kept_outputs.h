// Spends device memory that a plan leaves free: layers then keep what norms and activation functions make
// (Recompute::never), and their backward need not make it again. The same bits in less time.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/limits.h"

namespace zrt::runtime {

// Compiles `stage` again with the most layers of it that keep their outputs and still fit, the last ones first: what
// these keep lives the shortest. Layers whose activations move or are computed again are left alone, and so is
// everything where the configuration says what is computed again or the device has no limit. Returns whether the
// stage has changed; it is not verified.
bool keep_outputs(Compiled& stage, const std::vector<std::string>& phases, const Limits& limits,
                  const std::function<bool(const TierBytes&)>& holds);

}  // namespace zrt::runtime

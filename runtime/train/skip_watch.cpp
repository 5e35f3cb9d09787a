#include "runtime/train/skip_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace zrt::runtime {
namespace {
constexpr int64_t long_search = 100;  // steps; from 2^32 down to 1 a scale takes 33 with DeepSpeed's hysteresis of 2
}

// True where a dynamic scale can still be lowered to some purpose: below the smallest fp16 number, a gradient of 1 is
// lost.
bool SkipWatch::finds_scale(double scale) const {
  return scale_.dynamic && scale > std::max(scale_.minimum, 0x1p-24);
}

std::string SkipWatch::after(const StepMetrics& step) {
  if (step.skipped && step.counted_tokens == 0) {
    if (++empty_ > 1) return "";
    return fmt::format(
        "step {} changed nothing: none of its tokens counts, so there is no loss. Such steps are marked as skipped, "
        "and "
        "no more is said of them. Larger batches, or samples with more answers in them, avoid them",
        step.step);
  }
  all_ = step.skipped ? all_ + 1 : 0;
  if (!step.skipped) {
    row_ = 0;
    return "";
  }
  const bool first = !warned_;
  warned_ = true;
  if (finds_scale(step.loss_scale)) {
    if (all_ % long_search == 0) {
      return fmt::format(
          "step {}: {} steps in a row were skipped, and the loss scale is still {}: no weight has moved meanwhile. "
          "Lower "
          "fp16.initial_scale_power or fp16.hysteresis ({}), or look at the data",
          step.step, all_, step.loss_scale, scale_.hysteresis);
    }
    if (!first) return "";
    return fmt::format(
        "step {} was skipped: its loss or gradient is not finite at the loss scale {}. The scale is lowered until they "
        "are; such steps are marked and counted, and no more is said of them",
        step.step, step.loss_scale);
  }
  if (++row_ > 1) return "";
  const std::string limit = limit_ > 0
                                ? fmt::format("After {} such steps in a row the run stops (run.skip_limit)", limit_)
                                : std::string("The run goes on however many follow (run.skip_limit is 0)");
  return fmt::format("step {} was skipped: its loss ({}) or gradient (norm {}) is not finite, so no weight moved. {}",
                     step.step, step.loss, step.grad_norm, limit);
}

}  // namespace zrt::runtime

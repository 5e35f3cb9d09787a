// Watches the steps that are skipped because loss or gradient are not finite: it says which are worth a warning, and
// when too many have come in a row. Steps in which no token counts are no such steps.
#pragma once
#include <cstdint>
#include <string>

#include "optimizer/loss_scale.h"
#include "runtime/train/telemetry/metrics.h"

namespace zrt::runtime {

class SkipWatch {
 public:
  // `limit`: steps in a row; 0: none.
  SkipWatch(int64_t limit, const optimizer::LossScaleParams& scale) : limit_(limit), scale_(scale) {}

  // Takes note of a step. Returns a warning: of the run's first skipped step, and of the first of each row; else "".
  std::string after(const StepMetrics& step);
  // Steps skipped in a row up to the last one, without those by which a dynamic loss scale looks for its range.
  int64_t in_row() const { return row_; }
  // True where the weights may spoil the steps: a dynamic loss scale that grew too far skips a step or two alone.
  bool keeps_skipping() const { return row_ > 0 || all_ > 2; }
  bool too_many() const { return limit_ > 0 && row_ >= limit_; }

 private:
  bool finds_scale(double scale) const;
  int64_t limit_;
  optimizer::LossScaleParams scale_;
  int64_t row_ = 0;
  int64_t empty_ = 0;  // steps in which no token counted
  int64_t all_ = 0;    // in a row, for whatever reason
  bool warned_ = false;
};

}  // namespace zrt::runtime

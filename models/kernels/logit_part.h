// One rank knows this of a row of logits whose vocabulary is cut among ranks.
#pragma once

namespace zrt::models {

struct LogitPart {
  float max = 0;     // its largest logit
  float target = 0;  // the target's logit; 0 where that is another rank's
  double sum = 0;    // of e^(logit - max) over its logits
};

}  // namespace zrt::models

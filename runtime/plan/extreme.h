// The largest or smallest of one thing with which a run fits.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/trials.h"

namespace zrt::runtime {

struct Extreme {
  std::string text;  // "the fewest ranks that fit are 48; 24 lack 3.21 GiB each"
  Changes changes;   // of the configuration
  int ranks = 0;     // 0: nothing fits
  int64_t value = 0;
};
// `what` is "ranks", the fewest, the batch staying as it is; "sequence", the longest, in multiples of 128 tokens; or
// "microbatch", the largest, with as many microbatches a step. Values are looked for by halving, as each of them is
// taken to need more (fewer ranks, less) memory than the one before. Throws UsageError for another word, and
// ConfigError where no value of it makes a configuration.
Extreme find_extreme(const std::string& what, const Config& config, const models::Model& model,
                     const std::vector<std::string>& phases, const Cluster* cluster);

}  // namespace zrt::runtime

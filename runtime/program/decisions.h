// The decisions about a run that make it fit its memory and be fast (runtime/plan/fit.h). No bit depends on them.
#pragma once
#include <cstdint>
#include <optional>

#include "runtime/config/microbatch_order.h"
#include "runtime/config/pipeline.h"
#include "runtime/config/placement.h"

namespace zrt::runtime {

struct Decisions {
  Placement placement;
  const MicrobatchOrder* order = MicrobatchOrder::automatic;
  // Elements of weights that may be gathered ahead of the block that computes. None: the next block, whatever its size.
  std::optional<int64_t> prefetch;
  GatheredFor gathered_for = GatheredFor::use;          // in a pipeline
  bool open_gathered_for = false;                       // a budget may keep them longer
  bool open_overlap = false;                            // lanes may run beside each other: RunSettings::overlap
  bool open_placement = false, open_recompute = false;  // budgets may change it: MemoryConfig, of the same names
  bool open_activations = true;                         // a budget may change where activations are resident, too
  bool operator==(const Decisions&) const = default;
};

}  // namespace zrt::runtime

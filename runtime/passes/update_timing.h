// Says when units are updated. What a step decides is the same, and so are all bits where no update is skipped or
// clipped.
#pragma once
#include <memory>
#include <vector>

#include "runtime/passes/draft.h"

namespace zrt::runtime {

// Adds updates at the places of a step that it is told of: behind `begin`; in front of an op that runs a block, and of
// what brings its weights; behind the norms of units whose gradients are complete; behind the decision.
class UpdateTiming {
 public:
  virtual ~UpdateTiming() = default;
  virtual void begun(DraftSegment&) {}
  virtual void reads(DraftSegment&, const Op&) {}
  virtual void measured(DraftSegment&, const std::vector<uint32_t>&) {}
  virtual void decided(DraftSegment&) {}
  // True where norms are taken as soon as gradients are complete, also of those that stay on the device.
  virtual bool measures_at_once() const { return false; }
};

// Returns the timing that Layout::update_when names (runtime/config/update_when.h); `step` is the draft of the step.
// An update between blocks is a row of works of its own (Op::row). Throws ConfigError where updates would come
// before the norm that the optimizer needs.
std::unique_ptr<UpdateTiming> make_update_timing(ProgramSet& set, const Layout& layout, const StateBuffers& state,
                                                 const Draft& step);

}  // namespace zrt::runtime

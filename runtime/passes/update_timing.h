// When units are updated. What a step decides is the same, and so are all bits where no update is skipped or clipped.
#pragma once
#include <memory>
#include <vector>

#include "runtime/passes/draft.h"

namespace zrt::runtime {

class UpdateTiming {
 public:
  virtual ~UpdateTiming() = default;
  // Of a step: behind `begin`; behind the norms of units whose gradients are complete; behind the decision.
  virtual void begun(DraftSegment&) {}
  virtual void measured(DraftSegment&, const std::vector<uint32_t>& units) = 0;
  virtual void decided(DraftSegment&) {}
  // Whether norms are taken as soon as gradients are complete, also of those that stay on the device.
  virtual bool measures_at_once() const { return false; }
};

// Behind the norm of the whole gradient, which the decision needs; or with Layout::early_updates each unit as soon as
// its gradient is complete, by a decision made ahead of the norms: a row of works of its own (Op::row) between the
// blocks. Throws ConfigError where the optimizer needs the norm.
std::unique_ptr<UpdateTiming> make_update_timing(ProgramSet& set, const Layout& layout, const StateBuffers& state);

}  // namespace zrt::runtime

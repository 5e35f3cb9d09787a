// The part of a unit that an optimizer works on in one op.
#pragma once
#include <vector>

#include "optimizer/optimizer.h"
#include "runtime/ops/call.h"

namespace zrt::runtime {

class UpdatePart {
 public:
  // Finds elements [begin, begin + count) of the op's unit in each buffer, which holds the unit or this rank's shard.
  UpdatePart(const OpCall& call, optimizer::Extent extent);
  // Its pointers stay valid as long as this object.
  const optimizer::UnitPart& operator*() const { return part_; }

 private:
  optimizer::UnitPart part_;
  std::vector<float*> states_;
};

// Returns the decision of the optimizer that updates the op's unit.
const optimizer::Decision& decision_of(const OpCall& call);

}  // namespace zrt::runtime

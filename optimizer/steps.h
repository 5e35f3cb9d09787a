// Optimizer::update, sum and fold as kernels (core/kernel.h); on a skipped step they move nothing (optimizer.h). Their
// back ends give the same results to the bit. Decisions, parts and sums lie where the back end computes. Of parts that
// has_forms() names (forms.h) the unit is used.
#pragma once
#include "core/kernel.h"
#include "optimizer/element_rules.h"
#include "optimizer/optimizer.h"

namespace zrt::optimizer {

#define ZRT_STEP(step, name, Name) \
  ZRT_KERNEL(step, void(const Name##Params& params, const Decision& decision, const UnitPart& part));
ZRT_ELEMENT_RULES(ZRT_STEP)
#undef ZRT_STEP

ZRT_KERNEL(adafactor_step, void(const AdafactorParams& params, const Decision& decision, const UnitPart& part));
ZRT_KERNEL(adafactor_sum, void(const AdafactorParams& params, uint32_t round, const Decision& decision,
                               const UnitPart& shard, std::byte* share));  // which is zero
ZRT_KERNEL(adafactor_fold, void(const AdafactorParams& params, uint32_t round, const Decision& decision,
                                const UnitPart& part, const std::byte* shares, int ranks));

}  // namespace zrt::optimizer

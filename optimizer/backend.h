// What a back end brings for the optimizers. Each function of the list exists in the namespaces cpu and cuda, with the
// same results to the bit, and as a free function that calls the one of core::place(). Decisions, parts and sums lie
// where the back end computes.
#pragma once
#include "core/device.h"
#include "optimizer/adam_update.h"
#include "optimizer/element_rules.h"
#include "optimizer/exact_sum.h"
#include "optimizer/optimizer.h"

namespace zrt::optimizer {

// Optimizer::update, sum and fold; on a skipped step they move nothing (optimizer.h). Of parts that has_forms() names
// (forms.h) the unit is used.
#define ZRT_DECLARE_STEP(step, name, Name) \
  void step(const Name##Params& params, const Decision& decision, const UnitPart& part);
ZRT_ELEMENT_RULES(ZRT_DECLARE_STEP)
#undef ZRT_DECLARE_STEP
void adafactor_step(const AdafactorParams& params, const Decision& decision, const UnitPart& part);
void adafactor_sum(const AdafactorParams& params, uint32_t round, const Decision& decision, const UnitPart& shard,
                   std::byte* share);  // which is zero
void adafactor_fold(const AdafactorParams& params, uint32_t round, const Decision& decision, const UnitPart& part,
                    const std::byte* shares, int ranks);

#define ZRT_OPTIMIZER_KERNELS(X) \
  ZRT_ELEMENT_RULES(X) \
  X(adafactor_step) X(adafactor_sum) X(adafactor_fold) X(adam_update) X(add_squares)
#define ZRT_OPTIMIZER_DECLARE(name, ...) decltype(optimizer::name) name;
#define ZRT_OPTIMIZER_POINTER(name, ...) decltype(&optimizer::name) name;

struct Backend {
  ZRT_OPTIMIZER_KERNELS(ZRT_OPTIMIZER_POINTER)
};

namespace cpu {
ZRT_OPTIMIZER_KERNELS(ZRT_OPTIMIZER_DECLARE)
}
namespace cuda {
ZRT_OPTIMIZER_KERNELS(ZRT_OPTIMIZER_DECLARE)
extern const Backend backend;  // empty in builds without the CUDA Toolkit
}  // namespace cuda

}  // namespace zrt::optimizer

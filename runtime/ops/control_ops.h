// Works on the control block inside programs. All but the first two run at core::place(): on a GPU the control block
// and the shares lie in its memory, and only kernels follow these addresses.
#pragma once
#include <cstdint>

#include "runtime/ops/decide.h"
#include "runtime/ops/rank.h"

namespace zrt::runtime {

// Makes the candidate. The host calls it in front of a step, when the inputs are set.
void prepare_step(const Rank& rank, Control& control);
// Throws core::NumericError when the run cannot go on. The host calls it behind a step.
void throw_fault(const Rank& rank, const Control& control);

DecideRules decide_rules(const Rank& rank);

// Empties the sums of the step.
void begin_step(Control* control);
// Adds call_loss and the number of targets that are not negative.
void count_loss(Control* control, const int32_t* targets, int64_t rows);
void make_share(const Control* control, ControlShare* share);
void average(const ControlShare* shares, const DecideRules& rules, Control* control);
void decide(const ControlShare* shares, const DecideRules& rules, Control* control);
// Writes the decision of another control block, which only updates read.
void decide_ahead(Control* control, const DecideRules& rules, Control* decided);

#define ZRT_CONTROL_OPS(X) X(begin_step) X(count_loss) X(make_share) X(average) X(decide) X(decide_ahead)
#define ZRT_CONTROL_DECLARE(name) decltype(runtime::name) name;
namespace cuda {
ZRT_CONTROL_OPS(ZRT_CONTROL_DECLARE)
}  // namespace cuda

}  // namespace zrt::runtime

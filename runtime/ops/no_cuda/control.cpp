// Stands for cuda/ in builds without the CUDA Toolkit: core::require_device has refused the device long before.
#include "core/cuda/backend.h"
#include "core/error.h"
#include "runtime/ops/control_ops.h"

namespace zrt::runtime::cuda {

void begin_step(Control*) {
  throw core::Error(core::cuda::not_built);
}
void count_loss(Control*, const int32_t*, int64_t) {
  throw core::Error(core::cuda::not_built);
}
void make_share(const Control*, ControlShare*) {
  throw core::Error(core::cuda::not_built);
}
void average(const ControlShare*, const DecideRules&, Control*) {
  throw core::Error(core::cuda::not_built);
}
void decide(const ControlShare*, const DecideRules&, Control*) {
  throw core::Error(core::cuda::not_built);
}
void decide_ahead(Control*, const DecideRules&, Control*) {
  throw core::Error(core::cuda::not_built);
}

}  // namespace zrt::runtime::cuda

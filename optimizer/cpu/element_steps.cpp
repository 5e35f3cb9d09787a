// Adam, SGD and Lion on the CPU: pieces for threads, and the kernel table of this processor.
#include "optimizer/backend.h"
#include "optimizer/pieces.h"
#include "optimizer/scalars.h"

namespace zrt::optimizer {

const AdamKernels& adam_kernels(core::Isa isa) {
  return core::choose_isa(isa, adam_kernels_v3, adam_kernels_v4);
}
const SgdKernels& sgd_kernels(core::Isa isa) {
  return core::choose_isa(isa, sgd_kernels_v3, sgd_kernels_v4);
}
const LionKernels& lion_kernels(core::Isa isa) {
  return core::choose_isa(isa, lion_kernels_v3, lion_kernels_v4);
}

namespace cpu {
namespace {

void run_adam(const AdamScalars& scalars, bool decoupled, const UnitPart& part, float* moment1, float* moment2) {
  const AdamKernel kernel =
      adam_kernels(core::best_isa()).step[decoupled ? 1 : 0][grad_index(part)][weight_index(part)];
  for_pieces(part, [&](int64_t first, int64_t count, const void* grad, void* weight) {
    kernel(scalars, count, part.master + first, moment1 + first, moment2 + first, grad, weight);
  });
}

}  // namespace

void adam_step(const AdamParams& params, const Decision& decision, const UnitPart& part) {
  if (decision.skip) return;
  run_adam(adam_scalars(params, decision), params.decoupled, part, part.states[0], part.states[1]);
}

void adam_update(const AdamParams& params, const AdamStep& step, int64_t n, float* master, float* moment1,
                 float* moment2, const void* grad, DType grad_type, void* weight, DType weight_type) {
  UnitPart part;
  part.count = n;
  part.master = master;
  part.grad = grad, part.grad_type = grad_type;
  part.weight = weight, part.weight_type = weight_type;
  run_adam(adam_scalars(params, step), params.decoupled, part, moment1, moment2);
}

void sgd_step(const SgdParams& params, const Decision& decision, const UnitPart& part) {
  if (decision.skip) return;
  const SgdScalars scalars = sgd_scalars(params, decision);
  const SgdKernel kernel =
      sgd_kernels(core::best_isa()).step[static_cast<size_t>(sgd_kind(params))][grad_index(part)][weight_index(part)];
  float* buffer = part.states.empty() ? nullptr : part.states[0];
  for_pieces(part, [&](int64_t first, int64_t count, const void* grad, void* weight) {
    kernel(scalars, count, part.master + first, buffer ? buffer + first : nullptr, grad, weight);
  });
}

void lion_step(const LionParams& params, const Decision& decision, const UnitPart& part) {
  if (decision.skip) return;
  const LionScalars scalars = lion_scalars(params, decision);
  const LionKernel kernel = lion_kernels(core::best_isa()).step[grad_index(part)][weight_index(part)];
  for_pieces(part, [&](int64_t first, int64_t count, const void* grad, void* weight) {
    kernel(scalars, count, part.master + first, part.states[0] + first, grad, weight);
  });
}

}  // namespace cpu
}  // namespace zrt::optimizer

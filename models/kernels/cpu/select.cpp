#include "core/isa.h"
#include "models/kernels/cpu/vector_kernels.h"

namespace zrt::models::cpu {

const VectorKernels& vector_kernels(core::Isa isa) {
  return core::choose_isa(isa, v3::kernels, v4::kernels);
}

const VectorKernels& vector_kernels() {
  static const VectorKernels& best = vector_kernels(core::best_isa());
  return best;
}

}  // namespace zrt::models::cpu

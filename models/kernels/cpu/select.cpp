#include "core/isa.h"
#include "models/kernels/cpu/vector_kernels.h"

namespace zrt::models::cpu {

const VectorKernels& vector_kernels(core::Isa isa) {
  switch (isa) {
    case core::Isa::v4:
      return v4::kernels;
    case core::Isa::v3:
      return v3::kernels;
    default:
      return baseline::kernels;
  }
}

const VectorKernels& vector_kernels() {
  static const VectorKernels& best = vector_kernels(core::best_isa());
  return best;
}

}  // namespace zrt::models::cpu

#include "models/kernels/backend.h"

#include "core/kernel.h"

namespace zrt::models {

const Backend& backend(core::DeviceKind device) {
  if (device == core::DeviceKind::cpu) return cpu::backend;
  // Plans for a GPU ask for its products where nothing was refused yet.
  if (cuda::backend.make_gemm == nullptr) core::refuse_cuda();
  return cuda::backend;
}

}  // namespace zrt::models

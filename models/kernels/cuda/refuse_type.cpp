#include <fmt/format.h>

#include "core/error.h"
#include "models/kernels/cuda/dispatch.h"

namespace zrt::models::cuda {

void refuse_type(core::DType type) {
  throw core::Error(fmt::format("The GPU kernels do not compute in {}. Legal types are fp32, bf16 and fp16.",
                                core::dtype_name(type)));
}

}  // namespace zrt::models::cuda

#include "models/kernels/backend.h"

#include "models/kernels/cuda/gemm.h"
#include "models/kernels/cuda/lt.h"

namespace zrt::models::cuda {
namespace {

std::string libraries() {
  return "cuBLASLt " + lt_version();
}

}  // namespace

#define ZRT_ADDRESS(name) &cuda::name,

const Backend backend{ZRT_KERNELS(ZRT_ADDRESS) make_gemm, libraries, true, 64};

}  // namespace zrt::models::cuda

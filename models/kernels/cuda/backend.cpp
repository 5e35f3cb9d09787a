#include "models/kernels/backend.h"

#include "models/kernels/cuda/gemm.h"

namespace zrt::models::cuda {
#define ZRT_ADDRESS(name) &cuda::name,

const Backend backend{ZRT_KERNELS(ZRT_ADDRESS) make_any_gemm, products_library, true, 64};

}  // namespace zrt::models::cuda

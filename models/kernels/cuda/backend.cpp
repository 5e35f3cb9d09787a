#include "models/kernels/backend.h"

#include "models/kernels/cuda/gemm.h"

namespace zrt::models::cuda {

const Backend backend{make_any_gemm, products_library, true, 64};

}  // namespace zrt::models::cuda

#include "optimizer/backend.h"

namespace zrt::optimizer::cuda {

#define ZRT_ADDRESS(name, ...) &cuda::name,

const Backend backend{ZRT_OPTIMIZER_KERNELS(ZRT_ADDRESS)};

}  // namespace zrt::optimizer::cuda

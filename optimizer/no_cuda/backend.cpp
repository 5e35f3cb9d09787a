// Stands for cuda/ in builds without the CUDA Toolkit: core::require_device has refused the device long before.
#include "optimizer/backend.h"

namespace zrt::optimizer::cuda {

const Backend backend{};

}  // namespace zrt::optimizer::cuda
